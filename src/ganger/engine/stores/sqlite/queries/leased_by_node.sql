SELECT count(*) FROM task WHERE holder = ? AND holder IS NOT NULL
