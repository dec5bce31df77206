"""Rounds alternate, and what cannot be measured is said, not dropped."""

from __future__ import annotations

from bench.rounds import Derived, Figure, Load, Taken, derive, take_rounds
from bench.work import NotMeasuredError, Values, Work


def load_of(key: str, *, preparation: Work | None = None, missing: str | None = None) -> Load:
    return Load((Figure(key, "who", "what", "tasks/s"),), Work(key), preparation, missing)


class Runner:
    """Answers with the number of the call, and refuses the targets that it is told to."""

    def __init__(self, *refused: str) -> None:
        self.calls: list[str] = []
        self._refused = refused

    def __call__(self, work: Work) -> Values:
        self.calls.append(work.target)
        if work.target in self._refused:
            raise NotMeasuredError(f"no {work.target}")
        return (float(len(self.calls)),)


def ignore(_text: str) -> None:
    return None


def test_every_other_round_runs_in_reversed_order() -> None:
    run = Runner()
    take_rounds([load_of("a"), load_of("b")], 3, run, ignore)
    assert run.calls == ["a", "b", "b", "a", "a", "b"]


def test_samples_are_kept_in_the_order_of_the_rounds_and_their_median_is_taken() -> None:
    taken = take_rounds([load_of("a"), load_of("b")], 3, Runner(), ignore)
    assert taken["a"].samples == (1.0, 4.0, 5.0)
    assert taken["a"].median == 4.0


def test_a_load_that_cannot_be_measured_says_why_and_is_not_run_again() -> None:
    run = Runner("a")
    taken = take_rounds([load_of("a"), load_of("b")], 3, run, ignore)
    assert taken["a"].missing == "no a"
    assert taken["a"].samples == ()
    assert run.calls.count("a") == 1
    assert len(taken["b"].samples) == 3


def test_a_load_that_fails_in_a_later_round_has_no_samples_left() -> None:
    class FailsSecond(Runner):
        def __call__(self, work: Work) -> Values:
            if len(self.calls) == 1:
                raise NotMeasuredError("it broke")
            return super().__call__(work)

    taken = take_rounds([load_of("a")], 3, FailsSecond(), ignore)
    assert taken["a"].missing == "it broke"
    assert taken["a"].samples == ()


def test_a_load_known_to_be_missing_is_never_run() -> None:
    run = Runner()
    taken = take_rounds([load_of("a", missing="no server")], 3, run, ignore)
    assert run.calls == []
    assert taken["a"].missing == "no server"


def test_a_preparation_shared_by_two_loads_is_run_once() -> None:
    run = Runner()
    fill = Work("fill", kept="folder")
    take_rounds([load_of("a", preparation=fill), load_of("b", preparation=fill)], 3, run, ignore)
    assert run.calls.count("fill") == 1
    assert run.calls[0] == "fill"


def test_a_failed_preparation_is_the_reason_of_every_load_that_needs_it() -> None:
    run = Runner("fill")
    fill = Work("fill", kept="folder")
    taken = take_rounds([load_of("a", preparation=fill), load_of("b", preparation=fill)], 3, run, ignore)
    assert [taken[key].missing for key in ("a", "b")] == ["no fill", "no fill"]
    assert run.calls == ["fill"]


def test_progress_names_the_round_and_the_load() -> None:
    told: list[str] = []
    take_rounds([load_of("a")], 3, Runner(), told.append)
    assert told == ["round 1/3: who, what", "round 2/3: who, what", "round 3/3: who, what"]


def test_a_derived_figure_is_made_round_by_round() -> None:
    taken = {
        key: Taken(Figure(key, "who", "what", "ms"), samples) for key, samples in (("a", (1.0, 5.0)), ("b", (2.0, 3.0)))
    }
    assert derive(Derived(Figure("least", "who", "what", "ms"), ("a", "b"), min), taken).samples == (1.0, 3.0)


def test_a_derived_figure_without_a_part_is_not_measured() -> None:
    taken = {"a": Taken(Figure("a", "who", "what", "ms"), missing="install it")}
    assert derive(Derived(Figure("least", "who", "what", "ms"), ("a",), min), taken).missing == "install it"
