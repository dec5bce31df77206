"""The memory store: the model that every other store is compared with."""

from ganger.engine.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
