SELECT id FROM task
WHERE queue = ? AND limit_key = ? AND limit_key IS NOT NULL AND status = -2
ORDER BY priority, rank LIMIT ?
