INSERT INTO data (task, key, value, size)
SELECT row.task, 'result', row.value, length(row.value) FROM unnest($1::bigint[], $2::bytea[]) AS row (task, value)
ON CONFLICT (task, key) DO UPDATE SET value = excluded.value, blob = NULL, size = excluded.size
