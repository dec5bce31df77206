SELECT term, number, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at FROM receipt WHERE writer = $1
