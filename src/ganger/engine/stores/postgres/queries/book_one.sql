SELECT coalesce(sum(n), 0)::bigint FROM book WHERE queue = $1 AND name = $2
