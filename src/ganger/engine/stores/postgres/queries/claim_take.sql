WITH gone AS (
    DELETE FROM ready WHERE ctid = ANY(ARRAY(SELECT place FROM ready_place WHERE task = ANY($6::bigint[])))
), held AS (
    INSERT INTO lease (holder, task, queue) SELECT $2, row.id, row.queue FROM unnest($6::bigint[], $7::bigint[]) AS row (id, queue)
)
UPDATE task SET
    status = $1, fence = fence + 1, holder = $2, claimed = $3, started = NULL, modified = $3, reserves = reserves + 1,
    term = CASE WHEN touch THEN coalesce(ttr, $4) END, until = CASE WHEN touch THEN $5 + coalesce(ttr, $4) END
WHERE id = ANY($6::bigint[])
