"""The only place where randomness is drawn."""

import random
import secrets


class SystemEntropy:
    """Unpredictable tokens, and cheap numbers for jitter."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def uniform(self) -> float:
        return random.random()
