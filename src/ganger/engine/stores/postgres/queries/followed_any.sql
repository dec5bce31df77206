SELECT EXISTS (SELECT 1 FROM followed WHERE task = ANY($1::bigint[]))
