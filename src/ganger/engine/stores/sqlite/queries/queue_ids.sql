SELECT id, queue, lane, status, fence, holder, until, kids, grp, limit_key, waits, kill
FROM task WHERE queue = ? AND id > ? ORDER BY id LIMIT ?
