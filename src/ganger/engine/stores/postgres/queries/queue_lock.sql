SELECT id FROM queue WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE
