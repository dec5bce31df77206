SELECT priority, rank, id FROM task
WHERE queue = $1 AND limit_key = $2 AND keyed = -2 AND parked
ORDER BY priority, rank LIMIT $3
