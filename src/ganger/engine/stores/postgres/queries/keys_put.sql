INSERT INTO task_key (key, task) SELECT row.key, row.task FROM unnest($1::text[], $2::bigint[]) AS row (key, task)
