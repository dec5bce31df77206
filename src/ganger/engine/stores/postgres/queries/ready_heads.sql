SELECT head.* FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS line (queue, lane, most),
LATERAL (
    SELECT free.* FROM ready,
    LATERAL (
        SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr, kids, grp, limit_key
        FROM task
        WHERE task.id = ready.task AND task.queue = ready.queue AND status = -2 AND NOT parked
            AND task.fence = ready.fence AND task.lane = ready.lane AND task.priority = ready.priority
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS free
    WHERE ready.queue = line.queue AND ready.lane = line.lane
    ORDER BY ready.priority, ready.rank LIMIT line.most
) AS head
