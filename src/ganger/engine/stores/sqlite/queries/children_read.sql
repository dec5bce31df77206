SELECT id, queue, lane, status, waits, any_join, kids, grp, due, delay, limit_key, fence
FROM task WHERE id IN carray(?)
