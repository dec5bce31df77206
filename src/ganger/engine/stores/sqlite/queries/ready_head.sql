SELECT priority, rank, queue, id, lane FROM task
WHERE status = -2 AND parked = 0 AND queue = ? AND lane = ?
ORDER BY priority, rank LIMIT ?
