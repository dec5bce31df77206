INSERT INTO task (
    id, queue, lane, status, priority, rank, spec, created, modified,
    parked, due, waits, kids, grp, batch, key, limit_key, any_join, delay, retry, timeout, touch, ttr,
    description, retry_of, open_group
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
