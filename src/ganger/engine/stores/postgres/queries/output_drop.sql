DELETE FROM output WHERE number = ANY($1::bigint[])
