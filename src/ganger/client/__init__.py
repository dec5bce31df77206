"""The SDK: functions that become tasks, handles of what was submitted, graphs, and the outbox."""

from ganger.client.app import App
from ganger.client.calls import Call, command, shell
from ganger.client.conditions import wait_until, when
from ganger.client.function import Function
from ganger.client.graph import Condition, Graph, GraphTask
from ganger.client.groups import Choice, Group
from ganger.client.handle import AsyncHandle, Handle, TaskFailed
from ganger.client.transport import Draft, Piece, Plan, Reason, Synced, TaskEvent, Transport, Why
from ganger.core.errors import TaskHeld
from ganger.core.signals import Cancel, Retry, Snooze

__all__ = [
    "App",
    "AsyncHandle",
    "Call",
    "Cancel",
    "Choice",
    "Condition",
    "Draft",
    "Function",
    "Graph",
    "GraphTask",
    "Group",
    "Handle",
    "Piece",
    "Plan",
    "Reason",
    "Retry",
    "Snooze",
    "Synced",
    "TaskEvent",
    "TaskFailed",
    "TaskHeld",
    "Transport",
    "Why",
    "command",
    "shell",
    "wait_until",
    "when",
]
