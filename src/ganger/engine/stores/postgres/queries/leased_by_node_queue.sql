SELECT queue, count(*) FROM lease WHERE holder = $1 AND queue = ANY($2::bigint[]) GROUP BY queue
