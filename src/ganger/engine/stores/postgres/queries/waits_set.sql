UPDATE task SET waits = row.waits, modified = $1
FROM unnest($2::bigint[], $3::bigint[]) AS row (id, waits) WHERE task.id = row.id
