SELECT DISTINCT limit_key FROM task WHERE queue = ? AND limit_key IS NOT NULL AND status = -2
