SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr, holder, status, until
FROM task WHERE id = ? AND fence = ? AND holder IS NOT NULL
