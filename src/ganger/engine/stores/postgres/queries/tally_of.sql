SELECT queue, name, n FROM book WHERE queue = ANY($1::bigint[]) AND name = ANY($2::text[])
