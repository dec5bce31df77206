"""The log of acts hangs together, or says where it does not."""

from typing import Any

import pytest

from ganger.core.audit import START, AuditLine
from ganger.core.errors import AuditBroken
from ganger.engine.audit import Verified, verify
from tests.unit.engine.stage import Stage, play


class Tampered:
    """A store whose log somebody has been at."""

    def __init__(self, lines: list[AuditLine]) -> None:
        self.lines = lines

    async def audit(self, after: int, most: int = 1_000) -> list[AuditLine]:
        return self.lines[after : after + most]


def test_an_untouched_log_is_verified_over_many_pages() -> None:
    async def scenario(stage: Stage) -> None:
        for turn in range(1_100):
            await stage.engine.queues.rename(stage.queue.id, f"name {turn}", by="ann")
        verified = await stage.engine.verify_audit()
        assert verified.lines == 1_101
        assert verified.head == (await stage.memory.audit(1_100))[-1].hash  # type: ignore[arg-type]

    play(scenario)


def test_an_empty_log_is_verified() -> None:
    async def scenario(_: Stage) -> None:
        assert await verify(Tampered([])) == Verified(0, START)  # type: ignore[arg-type]

    play(scenario)


@pytest.mark.parametrize("harm", ["change", "drop", "swap", "cut"])
def test_a_changed_missing_or_exchanged_line_is_found(harm: str) -> None:
    async def scenario(stage: Stage) -> None:
        for turn in range(5):
            await stage.engine.queues.rename(stage.queue.id, f"name {turn}", by="ann")
        lines: list[Any] = list(await stage.memory.audit(0))  # type: ignore[arg-type]
        if harm == "change":
            lines[2] = lines[2]._replace(who="eve")
        elif harm == "drop":
            del lines[2]
        elif harm == "swap":
            lines[2], lines[3] = lines[3], lines[2]
        else:
            lines = lines[1:]
        with pytest.raises(AuditBroken) as caught:
            await verify(Tampered(lines))  # type: ignore[arg-type]
        assert caught.value.fields["position"] == (1 if harm == "cut" else 3)

    play(scenario)
