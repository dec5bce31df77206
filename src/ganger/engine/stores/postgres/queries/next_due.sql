SELECT min(first) FROM unnest($1::bigint[]) AS wanted (queue),
LATERAL (SELECT min(due) FROM task WHERE aside = -8 AND task.queue = wanted.queue) AS found (first)
