SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr, kids, grp, limit_key FROM task
WHERE id = ANY($1::bigint[]) AND status = -2 AND NOT parked FOR NO KEY UPDATE SKIP LOCKED
