INSERT INTO ready (queue, lane, priority, rank, task, fence)
SELECT queue, lane, priority, rank, id, fence FROM task WHERE id = ANY($1::bigint[]) AND status = -2 AND NOT parked
ON CONFLICT (queue, lane, priority, rank) DO UPDATE SET fence = excluded.fence
