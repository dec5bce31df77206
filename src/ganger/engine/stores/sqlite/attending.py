"""A claim that was left with the store: whoever is eager hears of it on the thread that serves the file."""

from typing import NamedTuple

from ganger.core.task import Eager
from ganger.databases.sqlite.unit import Outcome


class Haste(NamedTuple):
    """Passes on what becomes of an exchange that only claims."""

    eager: Eager

    def near(self, outcome: Outcome) -> None:
        if outcome.value is not None and outcome.value.claimed:
            self.eager.prepare(outcome.value.claimed)

    def safe(self, outcome: Outcome) -> None:
        if outcome.value is not None and outcome.value.claimed:
            self.eager.begin(outcome.value.claimed)

    def void(self) -> None:
        self.eager.forget()
