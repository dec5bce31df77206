"""What is made of the end of a plugin's process."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganger.core.outcome import Fail, Succeed
from ganger.node.executor import Ended
from ganger.node.executors.plugin import Papers, conclude
from ganger.node.guardian.messages import End


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers.of(tmp_path, 7, 1)


def end(papers: Papers, **said: Any) -> Ended:
    return conclude(End(7, 1, **said), papers, papers.task.parent)


def test_a_plugin_that_answers_leaves_what_its_process_exited_with(papers: Papers) -> None:
    papers.answer.write_text(json.dumps({"status": 1, "stdout": "done"}))

    ended = end(papers, why="exit", code=0)
    assert (ended.outcome, ended.data) == (Succeed(b"1"), {"stdout": b"done", "exit": b"0"})


def test_so_does_one_that_says_nothing(papers: Papers) -> None:
    ended = end(papers, why="exit", code=3)

    assert isinstance(ended.outcome, Fail)
    assert ended.data == {"exit": b"3"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"why": "exit", "signal": 9}, {"exit": b"-1"}),
        ({"why": "timeout", "signal": 15, "text": "too long"}, {"exit": b"-1"}),
        ({"why": "program", "code": 127, "text": "no such program"}, {"exit": b"-3"}),
        ({"why": "machine"}, {}),
    ],
)
def test_a_signal_and_a_program_that_is_missing_have_codes_of_their_own(
    papers: Papers, said: dict[str, Any], told: dict[str, bytes]
) -> None:
    assert end(papers, **said).data == told
