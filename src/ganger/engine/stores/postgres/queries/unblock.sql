UPDATE task SET status = row.status, waits = row.waits, due = row.due, parked = limit_key IS NOT NULL, modified = $1
FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::bigint[]) AS row (id, status, waits, due) WHERE task.id = row.id
