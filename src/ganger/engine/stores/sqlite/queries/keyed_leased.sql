SELECT count(*) FROM task WHERE queue = ? AND limit_key = ? AND limit_key IS NOT NULL AND holder IS NOT NULL
