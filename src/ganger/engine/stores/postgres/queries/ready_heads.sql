SELECT head.* FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS line (queue, lane, most),
LATERAL (
    SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr, kids, grp, limit_key FROM task
    WHERE status = -2 AND NOT parked AND task.queue = line.queue AND task.lane = line.lane
    ORDER BY priority, rank LIMIT line.most FOR NO KEY UPDATE SKIP LOCKED
) AS head
