SELECT wanted.lane FROM unnest($1::bigint[], $2::integer[]) AS wanted (queue, lane)
WHERE EXISTS (SELECT 1 FROM task WHERE status = -2 AND NOT parked AND task.queue = wanted.queue AND task.lane = wanted.lane)
