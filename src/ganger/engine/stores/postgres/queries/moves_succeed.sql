UPDATE task SET
    status = 1, holder = NULL, kill = false, ended = $1, modified = $1, attempts = attempts + 1, last = $2
FROM unnest($3::bigint[], $4::bigint[], $5::integer[], $6::bigint[]) AS row (id, fence, status, kids)
WHERE task.id = row.id AND task.fence = row.fence AND task.status = row.status AND task.kids = row.kids
RETURNING task.id
