UPDATE task SET lane = row.lane FROM unnest($1::bigint[], $2::integer[]) AS row (id, lane) WHERE task.id = row.id
