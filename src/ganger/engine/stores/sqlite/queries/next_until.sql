SELECT min(until) FROM task WHERE until IS NOT NULL
