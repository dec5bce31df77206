SELECT id, queue, lane, status, fence, holder, until, kids, grp, limit_key, waits, kill
FROM task WHERE id = ?
