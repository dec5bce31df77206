"""The plugin `Disbatch::Plugin::Demo`, as an example of one: it does what the letters of its `commands` say.

| letter | does |
|---|---|
| `a` | writes to standard output |
| `b` | writes to standard error |
| `c` | writes to standard error, and fails with status 2 |
| `*` | all of them |
"""

from typing import Final

from ganger.node.plugins import PluginTask

NAME: Final = "Disbatch::Plugin::Demo"
_ALL: Final = "abc"
_SUCCEEDED: Final = 1
_FAILED: Final = 2


class Demo:
    """Made with a task, and asked to run it."""

    def __init__(self, task: PluginTask) -> None:
        params = task.params if isinstance(task.params, dict) else {}
        commands = str(params.get("commands", ""))
        self._commands = _ALL if commands == "*" else commands

    def run(self) -> tuple[int, str, str]:
        """The status, and what is said on standard output and standard error."""
        stdout = "a is for apple\n" if "a" in self._commands else ""
        stderr = "b is for banana\n" if "b" in self._commands else ""
        if "c" in self._commands:
            return _FAILED, stdout, f"{stderr}c is for cry\n"
        return _SUCCEEDED, stdout, stderr
