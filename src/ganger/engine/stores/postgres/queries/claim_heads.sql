WITH head AS MATERIALIZED (
    SELECT found.* FROM unnest($1::bigint[], $2::integer[]) AS line (queue, lane),
    LATERAL (
        SELECT free.id, ready.queue, ready.priority, ready.rank, ready.ctid AS place FROM ready,
        LATERAL (
            SELECT id FROM task
            WHERE task.id = ready.task AND task.queue = ready.queue AND status = -2 AND NOT parked
                AND task.fence = ready.fence AND task.lane = ready.lane AND task.priority = ready.priority
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS free
        WHERE ready.queue = line.queue AND ready.lane = line.lane
        ORDER BY ready.priority, ready.rank LIMIT $3
    ) AS found
    ORDER BY found.priority, found.rank, found.queue LIMIT $3
), gone AS (
    DELETE FROM ready WHERE ctid = ANY(ARRAY(SELECT place FROM head))
), held AS (
    INSERT INTO lease (holder, task, queue) SELECT $5, id, queue FROM head
)
UPDATE task SET
    status = $4, fence = fence + 1, holder = $5, claimed = $6, started = NULL, modified = $6, reserves = reserves + 1,
    term = CASE WHEN touch THEN coalesce(ttr, $7) END, until = CASE WHEN touch THEN $8 + coalesce(ttr, $7) END
WHERE id = ANY(ARRAY(SELECT id FROM head))
RETURNING task.priority, task.rank, task.queue, task.id, task.lane, task.spec, task.fence - 1, task.attempts, task.crashes,
    task.retry, task.timeout, task.touch, task.ttr, task.kids, task.grp, task.limit_key
