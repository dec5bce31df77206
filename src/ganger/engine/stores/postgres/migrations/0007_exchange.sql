-- An exchange of plain tasks is one statement, and so one round trip and its own transaction. It goes by what its process
-- saw last of the store and of the node, and does nothing if that is not so any more: the process then looks, and takes
-- as many statements as it needs. What is to be written is decided there; here it is found out whether it may be.

-- Which events a step told, so that what it took can be found where its reply was lost.
ALTER TABLE receipt ADD COLUMN since bigint, ADD COLUMN until bigint;

CREATE OR REPLACE FUNCTION finish(
    turned bigint, moment bigint, facts text[], queues bigint[], holders bigint[], bodies bytea[], subjects text[],
    books bigint[], names text[], counts bigint[], who text, number bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    told bigint := cardinality(facts);
    first bigint;
    edition bigint;
BEGIN
    UPDATE store SET next_event = next_event + told, version = version + turned
        RETURNING next_event - told, version INTO first, edition;
    UPDATE receipt SET n = number, at = now(), since = first, until = first + told WHERE writer = who;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the receipt of writer % is gone', who USING ERRCODE = 'GA001';
    END IF;
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

-- Tasks that simply succeeded, each written if it still is what it was judged by; how many were.
CREATE FUNCTION succeed(
    moment bigint, who bigint, tasks bigint[], fences bigint[], statuses integer[], children bigint[], holders bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    WITH gone AS (
        DELETE FROM lease WHERE ctid = ANY(ARRAY(
            SELECT found.place FROM unnest(tasks, holders) AS row (id, holder),
            LATERAL (
                SELECT lease.ctid AS place FROM lease WHERE lease.holder = row.holder AND lease.task = row.id LIMIT 1
            ) AS found
        ))
    )
    UPDATE task SET
        status = 1, holder = NULL, kill = false, ended = moment, modified = moment, attempts = attempts + 1, last = who
    FROM (
        SELECT row.id, row.fence, row.status, row.kids, found.place
        FROM unnest(tasks, fences, statuses, children) AS row (id, fence, status, kids),
        LATERAL (SELECT task.ctid AS place FROM task WHERE task.id = row.id LIMIT 1) AS found
    ) AS row
    WHERE task.ctid = row.place AND task.id = row.id AND task.fence = row.fence AND task.status = row.status
        AND task.kids = row.kids;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;

-- The best tasks of some lines, taken: each column as a list, in the order of claiming, as the tasks were before. What
-- another claim has locked is stepped over. A spec that lies elsewhere comes along if it is no longer than `longest`. `rests`:
-- what is unusual about a task, as JSON; null if nothing is.
CREATE FUNCTION take_best(
    open_queues bigint[], open_lanes integer[], most bigint, target integer, taker bigint, moment bigint, length bigint,
    instant bigint, longest bigint,
    OUT tasks bigint[], OUT fences bigint[], OUT queues bigint[], OUT lanes integer[], OUT priorities bigint[],
    OUT specs bytea[], OUT rests text[]
) LANGUAGE plpgsql AS $$
BEGIN
    WITH head AS MATERIALIZED (
        SELECT found.* FROM unnest(open_queues, open_lanes) AS line (queue, lane),
        LATERAL (
            SELECT free.id, ready.queue, ready.priority, ready.rank, ready.ctid AS place FROM ready,
            LATERAL (
                SELECT id FROM task
                WHERE task.id = ready.task AND task.queue = ready.queue AND status = -2 AND NOT parked
                    AND task.fence = ready.fence AND task.lane = ready.lane AND task.priority = ready.priority
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS free
            WHERE ready.queue = line.queue AND ready.lane = line.lane
            ORDER BY ready.priority, ready.rank LIMIT most
        ) AS found
        ORDER BY found.priority, found.rank, found.queue LIMIT most
    ), gone AS (
        DELETE FROM ready WHERE ctid = ANY(ARRAY(SELECT place FROM head))
    ), held AS (
        INSERT INTO lease (holder, task, queue) SELECT taker, id, queue FROM head
    ), taken AS (
        UPDATE task SET
            status = target, fence = fence + 1, holder = taker, claimed = moment, started = NULL, modified = moment,
            reserves = reserves + 1, term = CASE WHEN touch THEN coalesce(ttr, length) END,
            until = CASE WHEN touch THEN instant + coalesce(ttr, length) END
        WHERE id = ANY(ARRAY(SELECT id FROM head))
        RETURNING task.priority, task.rank, task.queue, task.id, task.lane, task.spec, task.fence, task.attempts,
            task.crashes, task.retry, task.timeout, task.touch, task.ttr, task.kids, task.grp, task.limit_key
    )
    SELECT
        array_agg(id), array_agg(fence - 1), array_agg(queue), array_agg(lane), array_agg(priority),
        array_agg(coalesce(
            spec, (SELECT value FROM data WHERE data.task = best.id AND data.key = 'spec' AND data.size <= longest)
        )),
        array_agg(CASE WHEN attempts > 0 OR crashes > 0 OR touch OR kids > 0
                OR coalesce(retry, limit_key) IS NOT NULL OR coalesce(timeout, ttr, grp) IS NOT NULL
            THEN json_build_array(attempts, crashes, retry, timeout, touch, ttr, kids, grp, limit_key)::text END)
    INTO tasks, fences, queues, lanes, priorities, specs, rests
    FROM (SELECT * FROM taken ORDER BY priority, rank, queue, id) AS best;
END
$$;

-- A number as MessagePack has it.
CREATE FUNCTION pack(number bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN number < 128 THEN substr(int2send(number::smallint), 2)
        WHEN number < 2147483648 THEN '\xce'::bytea || int4send(number::integer)
        ELSE '\xcf'::bytea || int8send(number)
    END
$$;

-- The whole exchange. `edition`, `slots`, `wanted`, `kinds` and `labels` are what is gone by. `given` and `said` are the
-- instant and the time of day, if they are not the server's. `fact`, `target` and `mark` (the same, packed) say what a claim
-- is. `fits`: it was made. GA002: a task that was to succeed has changed, and nothing was written.
CREATE FUNCTION exchange(
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
