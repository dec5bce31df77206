SELECT * FROM seen WHERE id = ANY($1::bigint[])
