"""Protocols without IO: bytes or dicts in, typed messages out, and back."""
