"""What a running part tells about itself: whoever wants logs, metrics or traces is handed these events."""

import sys
from typing import Final, Protocol


class Telemetry(Protocol):
    """Is told what happened. It must not raise and must not wait: it is called from the middle of a loop."""

    def event(self, name: str, **fields: object) -> None: ...


class Silent:
    """Tells nobody."""

    def event(self, name: str, **fields: object) -> None:
        return None


SILENT: Final[Telemetry] = Silent()


class Loud:
    """Says each on standard error: for what must not stay unsaid where nobody asked for a log."""

    def event(self, name: str, **fields: object) -> None:
        said = ", ".join(f"{key} {value}" for key, value in fields.items())
        sys.stderr.write(f"ganger: {name}: {ascii(said)[1:-1]}\n")
        sys.stderr.flush()


LOUD: Final[Telemetry] = Loud()
