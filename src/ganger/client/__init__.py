"""The SDK: functions that become tasks, handles of what was submitted, graphs, and the outbox."""

from ganger.client.app import App
from ganger.client.calls import Call, command, shell
from ganger.client.function import Function
from ganger.client.graph import Graph, GraphTask, Group
from ganger.client.handle import AsyncHandle, Handle, TaskFailed
from ganger.client.transport import Draft, Piece, Reason, Transport, Why
from ganger.core.signals import Cancel, Retry, Snooze

__all__ = [
    "App",
    "AsyncHandle",
    "Call",
    "Cancel",
    "Draft",
    "Function",
    "Graph",
    "GraphTask",
    "Group",
    "Handle",
    "Piece",
    "Reason",
    "Retry",
    "Snooze",
    "TaskFailed",
    "Transport",
    "Why",
    "command",
    "shell",
]
