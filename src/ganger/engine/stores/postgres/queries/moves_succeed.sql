WITH gone AS (
    DELETE FROM lease WHERE ctid = ANY(ARRAY(
        SELECT found.place FROM unnest($3::bigint[], $7::bigint[]) AS row (id, holder),
        LATERAL (
            SELECT lease.ctid AS place FROM lease WHERE lease.holder = row.holder AND lease.task = row.id LIMIT 1
        ) AS found
    ))
)
UPDATE task SET
    status = 1, holder = NULL, kill = false, ended = $1, modified = $1, attempts = attempts + 1, last = $2
FROM (
    SELECT row.id, row.fence, row.status, row.kids, found.place
    FROM unnest($3::bigint[], $4::bigint[], $5::integer[], $6::bigint[]) AS row (id, fence, status, kids),
    LATERAL (SELECT task.ctid AS place FROM task WHERE task.id = row.id LIMIT 1) AS found
) AS row
WHERE task.ctid = row.place AND task.id = row.id AND task.fence = row.fence AND task.status = row.status AND task.kids = row.kids
RETURNING task.id
