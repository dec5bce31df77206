WITH held AS (
    DELETE FROM lease WHERE ctid = ANY(ARRAY(
        SELECT found.place FROM task,
        LATERAL (
            SELECT lease.ctid AS place FROM lease WHERE lease.holder = task.holder AND lease.task = task.id LIMIT 1
        ) AS found
        WHERE task.id = ANY($1::bigint[])
    ))
)
DELETE FROM ready WHERE ctid = ANY(ARRAY(SELECT place FROM ready_place WHERE task = ANY($1::bigint[])))
