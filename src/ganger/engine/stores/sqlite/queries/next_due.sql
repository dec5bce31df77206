SELECT min(due) FROM task WHERE status = -8 AND queue = ?
