SELECT priority, rank, id FROM task
WHERE queue = ? AND limit_key = ? AND limit_key IS NOT NULL AND status = -2 AND parked = 1
ORDER BY priority, rank LIMIT ?
