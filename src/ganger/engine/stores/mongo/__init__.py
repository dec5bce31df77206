"""The MongoDB store: the documents of the Disbatch protocol, and what the engine needs beyond them."""

from ganger.engine.stores.mongo.store import MongoStore

__all__ = ["MongoStore"]
