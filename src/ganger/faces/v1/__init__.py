"""The `/v1` API: nodes, their data, the scheduler, and a stream of what happens."""
