"""The implementations of the store contract."""
