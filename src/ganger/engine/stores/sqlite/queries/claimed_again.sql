SELECT priority, rank, queue, id, lane, spec, fence, until, attempts, crashes, retry, timeout, holder, status
FROM task WHERE id = ? AND fence = ? AND holder IS NOT NULL
