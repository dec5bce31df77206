WITH turn AS (
    UPDATE store SET next_event = next_event + $1, version = version + $2
    RETURNING next_event - $1 AS first, version
), told AS (
    INSERT INTO event (position, at, fact, queue, holder, entries, subject)
    SELECT turn.first + row.ordinal - 1, $3, row.fact, row.queue, row.holder, row.entries, row.subject
    FROM turn, unnest($4::text[], $5::bigint[], $6::bigint[], $7::bytea[], $8::text[])
        WITH ORDINALITY AS row (fact, queue, holder, entries, subject, ordinal)
), kept AS (
    INSERT INTO book AS known (queue, name, n)
    SELECT row.queue, row.name, row.n FROM turn, unnest($9::bigint[], $10::text[], $11::bigint[]) AS row (queue, name, n)
    ON CONFLICT (queue, name) DO UPDATE SET n = known.n + excluded.n
), sealed AS (
    UPDATE receipt SET n = $13, at = now() WHERE writer = $12 RETURNING n
)
SELECT version, EXISTS (SELECT 1 FROM sealed) FROM turn
