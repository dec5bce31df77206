WITH moved AS (
    UPDATE task SET status = row.status, waits = row.waits, due = row.due, parked = limit_key IS NOT NULL, modified = $1
    FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::bigint[]) AS row (id, status, waits, due)
    WHERE task.id = row.id
    RETURNING queue, lane, priority, rank, task.id, fence, task.status, parked
)
INSERT INTO ready (queue, lane, priority, rank, task, fence)
SELECT queue, lane, priority, rank, id, fence FROM moved WHERE status = -2 AND NOT parked
ON CONFLICT (queue, lane, priority, rank) DO UPDATE SET fence = excluded.fence
