SELECT id, queue, lane, status, waits, any_join, kids, grp, due, delay, limit_key, fence, failures
FROM task WHERE id = ANY($1::bigint[]) ORDER BY id
