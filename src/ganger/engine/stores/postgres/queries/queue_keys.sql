SELECT DISTINCT limit_key FROM task WHERE queue = $1 AND limit_key IS NOT NULL AND keyed = -2
