UPDATE task SET status = 0, started = $1, modified = $1 WHERE id = ANY($2::bigint[])
