WITH born AS (
    INSERT INTO task (id, queue, lane, status, priority, rank, spec, created, modified)
    SELECT row.id, row.queue, row.lane, -2, row.priority, row.rank, row.spec, $1, $1
    FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::bigint[], $6::bigint[], $7::bytea[])
        AS row (id, queue, lane, priority, rank, spec)
    RETURNING queue, lane, priority, rank, id
)
INSERT INTO ready (queue, lane, priority, rank, task, fence) SELECT queue, lane, priority, rank, id, 0 FROM born
