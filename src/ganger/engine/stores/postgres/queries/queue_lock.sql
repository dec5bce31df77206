SELECT queue.id FROM queue JOIN unnest($1::bigint[], $2::bigint[]) AS wanted (id, most) ON queue.id = wanted.id
WHERE wanted.most IS NULL OR wanted.most > (
    SELECT coalesce(sum(n), 0) FROM book WHERE book.queue = wanted.id AND book.name = ANY($3::text[])
)
ORDER BY queue.id FOR NO KEY UPDATE OF queue
