SELECT id, queue, lane, status, fence, holder, until, kids, grp, limit_key, priority, waits, due, started
FROM task WHERE id = ?
