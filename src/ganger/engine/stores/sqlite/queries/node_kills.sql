SELECT id FROM task WHERE holder = ? AND holder IS NOT NULL AND kill = 1
