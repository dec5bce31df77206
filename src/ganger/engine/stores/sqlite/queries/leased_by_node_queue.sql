SELECT count(*) FROM task WHERE holder = ? AND queue = ? AND holder IS NOT NULL
