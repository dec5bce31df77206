SELECT json_group_array(json_array(
    id, queue, lane, status, fence, holder, until, kids, grp, limit_key, waits, kill
))
FROM task WHERE id IN carray(?)
