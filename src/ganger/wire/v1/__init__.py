"""The `/v1` protocol without IO: what its requests mean, and how its answers look."""
