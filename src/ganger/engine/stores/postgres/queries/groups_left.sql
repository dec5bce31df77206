UPDATE task SET waits = waits - row.n FROM unnest($1::bigint[], $2::bigint[]) AS row (id, n)
WHERE task.id = row.id AND task.status IN (-4, -7)
