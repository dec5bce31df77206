UPDATE task SET waits = waits - row.n, failures = failures + row.bad, modified = $1
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS row (id, n, bad)
WHERE task.id = row.id AND task.status IN (-4, -7)
