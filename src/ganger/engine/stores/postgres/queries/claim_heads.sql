WITH head AS MATERIALIZED (
    SELECT found.* FROM unnest($1::bigint[], $2::integer[]) AS line (queue, lane),
    LATERAL (
        SELECT id, queue, priority, rank FROM task
        WHERE status = -2 AND NOT parked AND task.queue = line.queue AND task.lane = line.lane
        ORDER BY priority, rank LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    ORDER BY found.priority, found.rank, found.queue LIMIT $3
)
UPDATE task SET
    status = $4, fence = fence + 1, holder = $5, claimed = $6, started = NULL, modified = $6, reserves = reserves + 1,
    term = CASE WHEN touch THEN coalesce(ttr, $7) END, until = CASE WHEN touch THEN $8 + coalesce(ttr, $7) END
FROM head WHERE task.id = head.id AND task.queue = head.queue
RETURNING task.priority, task.rank, task.queue, task.id, task.lane, task.spec, task.fence - 1, task.attempts, task.crashes,
    task.retry, task.timeout, task.touch, task.ttr, task.kids, task.grp, task.limit_key
