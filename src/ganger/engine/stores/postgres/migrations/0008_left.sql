-- A claim steps over what another transaction has locked. That one may take it, or give it up without a word: one that
-- takes the best of several lines locks more than it takes, and one that dies takes nothing. So a claim that got less than
-- it asked for looks whether anything is left, and comes again soon if there is.

-- Is anything ready in these lines, as far as is committed?
CREATE FUNCTION is_left(open_queues bigint[], open_lanes integer[]) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM unnest(open_queues, open_lanes) AS line (queue, lane),
        LATERAL (
            SELECT 1 FROM ready JOIN task ON task.id = ready.task
            WHERE ready.queue = line.queue AND ready.lane = line.lane
                AND task.queue = ready.queue AND status = -2 AND NOT parked
                AND task.fence = ready.fence AND task.lane = ready.lane AND task.priority = ready.priority
            LIMIT 1
        ) AS found
    )
$$;

-- As before, and `next_due` is soon if it stepped over something.
CREATE OR REPLACE FUNCTION exchange(
    lock bigint, edition bigint, given bigint, said bigint,
    acting bigint, who bigint, slots integer, wanted text[], kinds text[], labels text[],
    results bigint[], bodies bytea[],
    ends bigint[], end_fences bigint[], end_statuses integer[], end_children bigint[], end_holders bigint[],
    facts text[], fact_queues bigint[], fact_holders bigint[], fact_bodies bytea[],
    books bigint[], names text[], counts bigint[],
    asked bigint[], open_queues bigint[], open_lanes integer[], most bigint, target integer, mark bytea, fact text,
    length bigint, longest bigint, writer text, number bigint,
    OUT fits boolean, OUT wall bigint, OUT letters boolean, OUT followed boolean, OUT room bigint, OUT next_due bigint,
    OUT tasks bigint[], OUT fences bigint[], OUT queues bigint[], OUT lanes integer[], OUT priorities bigint[],
    OUT specs bytea[], OUT rests text[]
) LANGUAGE plpgsql AS $$
DECLARE
    instant bigint;
    soon CONSTANT bigint := 50;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    wall := coalesce(said, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    instant := coalesce(given, wall);
    SELECT store.version = edition AND node.state = 'active' AND node.until > instant AND node.identity = who
            AND coalesce(identity.most, node.slots) IS NOT DISTINCT FROM exchange.slots
            AND node.queues IS NOT DISTINCT FROM wanted AND node.kinds IS NOT DISTINCT FROM exchange.kinds
            AND node.labels = exchange.labels,
        EXISTS (SELECT 1 FROM inbox WHERE error IS NULL), EXISTS (SELECT 1 FROM followed),
        (
            SELECT min(first) FROM unnest(asked) AS line (queue),
            LATERAL (SELECT min(due) FROM task WHERE aside = -8 AND task.queue = line.queue) AS found (first)
        )
    INTO fits, letters, followed, next_due
    FROM store, node JOIN identity ON identity.id = node.identity WHERE node.id = acting;
    fits := coalesce(fits AND (next_due IS NULL OR next_due > wall), false);
    IF NOT fits THEN
        RETURN;
    END IF;

    IF cardinality(results) > 0 THEN
        INSERT INTO data (task, key, value, size)
        SELECT row.task, 'result', row.value, octet_length(row.value) FROM unnest(results, bodies) AS row (task, value)
        ON CONFLICT (task, key) DO UPDATE SET value = excluded.value, blob = NULL, size = excluded.size;
    END IF;
    IF cardinality(ends) > 0
        AND succeed(wall, who, ends, end_fences, end_statuses, end_children, end_holders) < cardinality(ends) THEN
        RAISE EXCEPTION 'a task was changed by somebody else' USING ERRCODE = 'GA002';
    END IF;

    room := most;
    IF slots IS NOT NULL AND most > 0 THEN
        -- Of its claims that count against its slots one waits for the other.
        PERFORM 1 FROM node WHERE id = acting FOR NO KEY UPDATE;
        room := greatest(0, least(most, slots - (SELECT count(*) FROM lease WHERE holder = acting)));
    END IF;
    IF room > 0 AND cardinality(open_queues) > 0 THEN
        SELECT best.* FROM take_best(open_queues, open_lanes, room, target, acting, wall, length, instant, longest) AS best
        INTO tasks, fences, queues, lanes, priorities, specs, rests;
        IF coalesce(cardinality(tasks), 0) < room AND is_left(open_queues, open_lanes) THEN
            next_due := least(next_due, wall + soon);
        END IF;
    END IF;
    IF tasks IS NOT NULL THEN
        followed := followed AND EXISTS (SELECT 1 FROM followed WHERE task = ANY(tasks));
        SELECT facts || array_agg(fact), fact_queues || array_agg(told.queue), fact_holders || array_agg(acting),
            fact_bodies || array_agg(told.body)
        INTO facts, fact_queues, fact_holders, fact_bodies
        FROM (
            SELECT row.queue, '\xdd'::bytea || int4send(count(*)::integer) || string_agg(
                '\x94'::bytea || pack(row.task) || mark || pack(row.fence + 1) || '\xc0'::bytea, ''::bytea
                ORDER BY row.ordinal
            ) AS body
            FROM unnest(queues, tasks, fences) WITH ORDINALITY AS row (queue, task, fence, ordinal)
            GROUP BY row.queue ORDER BY row.queue
        ) AS told;
        SELECT array_agg(known.queue), array_agg(known.name), array_agg(known.n) INTO books, names, counts
        FROM (
            SELECT row.queue, row.name, sum(row.n)::bigint AS n
            FROM (
                SELECT * FROM unnest(books, names, counts)
                UNION ALL
                SELECT line.queue, change.name, change.n * line.n
                FROM (SELECT queue, count(*) FROM unnest(queues) AS taken (queue) GROUP BY queue) AS line (queue, n),
                    (VALUES ('-2', -1), (target::text, 1), (fact, 1)) AS change (name, n)
            ) AS row (queue, name, n)
            GROUP BY row.queue, row.name HAVING sum(row.n) <> 0
        ) AS known;
    ELSE
        followed := false;
    END IF;
    IF cardinality(facts) > 0 THEN
        PERFORM finish(
            0, wall, facts, fact_queues, fact_holders, fact_bodies, NULL, books, names, counts, writer, number
        );
    END IF;
END
$$;
