UPDATE task SET status = row.status, waits = row.waits, reason = row.reason, ended = $1, modified = $1
FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::text[]) AS row (id, status, waits, reason)
WHERE task.id = row.id
