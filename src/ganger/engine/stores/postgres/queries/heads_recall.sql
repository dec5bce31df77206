SELECT task.priority, task.rank, task.queue, task.id, task.lane,
    coalesce(task.spec, (SELECT value FROM data WHERE data.task = task.id AND data.key = 'spec' AND data.size <= $4)),
    task.fence - 1, task.attempts, task.crashes, task.retry, task.timeout, task.touch, task.ttr, task.kids, task.grp,
    task.limit_key
FROM unnest($2::bigint[], $3::bigint[]) AS row (id, fence),
LATERAL (SELECT * FROM task WHERE task.id = row.id AND task.fence = row.fence AND task.holder = $1) AS task
