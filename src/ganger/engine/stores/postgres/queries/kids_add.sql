UPDATE task SET kids = kids + row.n FROM unnest($1::bigint[], $2::bigint[]) AS row (id, n) WHERE task.id = row.id
