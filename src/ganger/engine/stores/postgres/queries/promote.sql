WITH moved AS (
    UPDATE task SET status = -2, parked = limit_key IS NOT NULL, modified = $1
    WHERE id = ANY(ARRAY(
        SELECT found.id FROM unnest($2::bigint[]) AS wanted (queue),
        LATERAL (
            SELECT id, due FROM task WHERE aside = -8 AND task.queue = wanted.queue AND due <= $1
            ORDER BY due LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
        ) AS found
        ORDER BY found.due, found.id LIMIT $3
    ))
    RETURNING id, queue, lane, priority, rank, limit_key, fence, due, parked
), entered AS (
    INSERT INTO ready (queue, lane, priority, rank, task, fence)
    SELECT queue, lane, priority, rank, id, fence FROM moved WHERE NOT parked
    ON CONFLICT (queue, lane, priority, rank) DO UPDATE SET fence = excluded.fence
)
SELECT id, queue, lane, limit_key, fence, due FROM moved
