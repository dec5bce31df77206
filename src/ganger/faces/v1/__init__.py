"""The `/v1` API: tasks, their data, the scheduler, and a stream of what happens."""
