INSERT INTO data (task, key, value, blob, size)
SELECT row.task, row.key, row.value, row.blob, row.size
FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[], $5::bigint[]) AS row (task, key, value, blob, size)
ON CONFLICT (task, key) DO UPDATE SET value = excluded.value, blob = excluded.blob, size = excluded.size
