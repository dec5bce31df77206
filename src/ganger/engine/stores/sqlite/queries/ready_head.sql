SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr FROM task
WHERE status = -2 AND parked = 0 AND queue = ? AND lane = ?
ORDER BY priority, rank LIMIT ?
