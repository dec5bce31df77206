SELECT id FROM task WHERE kill = 1 AND holder = ?
