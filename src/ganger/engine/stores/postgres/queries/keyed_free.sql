WITH freed AS (
    UPDATE task SET parked = false WHERE queue = $1 AND limit_key = $2 AND keyed = -2 AND parked
    RETURNING queue, lane, priority, rank, id, fence
)
INSERT INTO ready (queue, lane, priority, rank, task, fence) SELECT queue, lane, priority, rank, id, fence FROM freed
ON CONFLICT (queue, lane, priority, rank) DO UPDATE SET fence = excluded.fence
