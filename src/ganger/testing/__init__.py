"""Tools for proofs, shipped to users: fake time, failing disks, power cuts, client histories and their checkers."""

from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.history import Books, Entry, History, Outcome, audit, read_history
from ganger.testing.lease_model import LeaseModel
from ganger.testing.linearizability import UNKNOWN, Model, Operation, Verdict, linearize
from ganger.testing.power import PowerLog
from ganger.testing.vfs import Fault, FaultVfs, PowerVfs, fail_each_call

__all__ = [
    "UNKNOWN",
    "Books",
    "Entry",
    "FakeClock",
    "Fault",
    "FaultVfs",
    "History",
    "LeaseModel",
    "Model",
    "Operation",
    "Outcome",
    "PowerLog",
    "PowerVfs",
    "SeededEntropy",
    "Verdict",
    "audit",
    "fail_each_call",
    "linearize",
    "read_history",
]
