WITH edges AS (DELETE FROM edge WHERE parent = ANY($1::bigint[])),
     data AS (DELETE FROM data WHERE task = ANY($1::bigint[])),
     attempts AS (DELETE FROM attempt WHERE task = ANY($1::bigint[])),
     keys AS (
         DELETE FROM task_key USING task
         WHERE task.id = ANY($1::bigint[]) AND task.key IS NOT NULL AND task_key.key = task.key
     ),
     outputs AS (DELETE FROM output WHERE task = ANY($1::bigint[]) RETURNING size),
     places AS (DELETE FROM ready WHERE ctid = ANY(ARRAY(SELECT place FROM ready_place WHERE task = ANY($1::bigint[])))),
     tasks AS (DELETE FROM task WHERE id = ANY($1::bigint[]))
SELECT coalesce(sum(size), 0)::bigint FROM outputs
