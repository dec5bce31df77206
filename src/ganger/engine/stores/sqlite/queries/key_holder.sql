SELECT id FROM task WHERE key = ?
