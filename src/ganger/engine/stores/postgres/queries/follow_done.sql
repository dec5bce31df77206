DELETE FROM follow WHERE parent = ANY($1::bigint[])
