SELECT wanted.lane FROM unnest($1::bigint[], $2::integer[]) AS wanted (queue, lane)
WHERE EXISTS (SELECT 1 FROM ready WHERE ready.queue = wanted.queue AND ready.lane = wanted.lane)
