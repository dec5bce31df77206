-- The end of a step: the turnstile, the facts behind it, and the books. A function, so that its text can be sent together
-- with the commit: whoever holds the turnstile then never waits for the client. GA001: the writer's receipt is gone.
CREATE FUNCTION finish(
    turned bigint, moment bigint, facts text[], queues bigint[], holders bigint[], bodies bytea[], subjects text[],
    books bigint[], names text[], counts bigint[], who text, number bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    told bigint := cardinality(facts);
    first bigint;
    edition bigint;
BEGIN
    UPDATE receipt SET n = number, at = now() WHERE writer = who;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the receipt of writer % is gone', who USING ERRCODE = 'GA001';
    END IF;
    UPDATE store SET next_event = next_event + told, version = version + turned
        RETURNING next_event - told, version INTO first, edition;
    IF told > 0 THEN
        INSERT INTO event (position, at, fact, queue, holder, entries, subject)
        SELECT first + row.ordinal - 1, moment, row.fact, row.queue, row.holder, row.entries, row.subject
        FROM unnest(facts, queues, holders, bodies, subjects)
            WITH ORDINALITY AS row (fact, queue, holder, entries, subject, ordinal);
    END IF;
    INSERT INTO book AS known (queue, name, n)
        SELECT row.queue, row.name, row.n FROM unnest(books, names, counts) AS row (queue, name, n)
        ON CONFLICT (queue, name) DO UPDATE SET n = known.n + excluded.n;
    RETURN edition;
END
$$;
