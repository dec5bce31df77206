WITH born AS (
    INSERT INTO task (
        id, queue, lane, status, priority, rank, spec, created, modified, parked, due, waits, kids, grp, batch, key, limit_key,
        any_join, delay, retry, timeout, touch, ttr, description, retry_of, open_group
    )
    SELECT row.id, row.queue, row.lane, row.status, row.priority, row.rank, row.spec, $1, $1, row.parked, row.due, row.waits,
           row.kids, row.grp, row.batch, row.key, row.limit_key, row.any_join, row.delay, row.retry, row.timeout, row.touch,
           row.ttr, row.description, row.retry_of, row.open_group
    FROM unnest(
        $2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[], $8::bytea[], $9::boolean[],
        $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::boolean[],
        $18::bigint[], $19::text[], $20::bigint[], $21::boolean[], $22::bigint[], $23::text[], $24::bigint[], $25::boolean[]
    ) AS row (
        id, queue, lane, status, priority, rank, spec, parked, due, waits, kids, grp, batch, key, limit_key, any_join, delay,
        retry, timeout, touch, ttr, description, retry_of, open_group
    )
    RETURNING queue, lane, priority, rank, id, status, parked
)
INSERT INTO ready (queue, lane, priority, rank, task, fence)
SELECT queue, lane, priority, rank, id, 0 FROM born WHERE status = -2 AND NOT parked
