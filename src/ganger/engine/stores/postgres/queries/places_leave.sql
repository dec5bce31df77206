WITH held AS (
    DELETE FROM lease WHERE ctid = ANY(ARRAY(
        SELECT found.place FROM task,
        LATERAL (
            SELECT lease.ctid AS place FROM lease WHERE lease.holder = task.holder AND lease.task = task.id LIMIT 1
        ) AS found
        WHERE task.id = ANY($1::bigint[])
    ))
)
DELETE FROM ready WHERE ctid = ANY(ARRAY(
    SELECT found.place FROM task,
    LATERAL (
        SELECT ready.ctid AS place FROM ready
        WHERE ready.queue = task.queue AND ready.lane = task.lane AND ready.priority = task.priority AND ready.rank = task.rank
        LIMIT 1
    ) AS found
    WHERE task.id = ANY($1::bigint[])
))
