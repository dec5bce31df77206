"""What a running part tells about itself: whoever wants logs, metrics or traces is handed these events."""

from typing import Final, Protocol


class Telemetry(Protocol):
    """Is told what happened. It must not raise and must not wait: it is called from the middle of a loop."""

    def event(self, name: str, **fields: object) -> None: ...


class Silent:
    """Tells nobody."""

    def event(self, name: str, **fields: object) -> None:
        return None


SILENT: Final[Telemetry] = Silent()
