-- The log of the server holds, of a row that is updated in its page, all that lies between the first and the last byte
-- that changed. So the columns that a claim and a settle change lie side by side: before them those of fixed length that
-- stay and are never null, behind them the rest, the spec at the end. A claim and a settle logged the spec with them.
ALTER TABLE task RENAME TO former;

CREATE TABLE task (
    id bigint NOT NULL,
    queue bigint NOT NULL,
    priority bigint NOT NULL,
    rank bigint NOT NULL,
    created bigint NOT NULL,
    waits bigint NOT NULL DEFAULT 0,
    kids bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    delay bigint NOT NULL DEFAULT 0,
    lane integer NOT NULL,
    crashes integer NOT NULL DEFAULT 0,
    timeouts integer NOT NULL DEFAULT 0,
    releases integer NOT NULL DEFAULT 0,
    buries integer NOT NULL DEFAULT 0,
    kicks integer NOT NULL DEFAULT 0,
    parked boolean NOT NULL DEFAULT false,
    open_group boolean NOT NULL DEFAULT false,
    branch boolean NOT NULL DEFAULT true,
    any_join boolean NOT NULL DEFAULT false,
    touch boolean NOT NULL DEFAULT false,
    kill boolean NOT NULL DEFAULT false,
    status integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    reserves integer NOT NULL DEFAULT 0,
    modified bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    holder bigint,
    claimed bigint,
    started bigint,
    ended bigint,
    last bigint,
    until bigint,
    term bigint,
    due bigint,
    grp bigint,
    batch bigint,
    ttr bigint,
    timeout bigint,
    retry_of bigint,
    percent double precision,
    aside integer GENERATED ALWAYS AS (CASE WHEN status < -2 OR status > 1 THEN status END) STORED,
    keyed integer GENERATED ALWAYS AS (
        CASE WHEN limit_key IS NOT NULL AND status BETWEEN -2 AND 0 THEN status END
    ) STORED,
    key text,
    limit_key text,
    retry text,
    description text,
    info text,
    reason text,
    spec bytea
) WITH (fillfactor = 33, vacuum_truncate = false, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05,
        autovacuum_vacuum_cost_delay = 0);

INSERT INTO task (
    id, queue, priority, rank, created, waits, kids, failures, delay, lane, crashes, timeouts, releases, buries, kicks,
    parked, open_group, branch, any_join, touch, kill, status, attempts, reserves, modified, fence, holder, claimed, started,
    ended, last, until, term, due, grp, batch, ttr, timeout, retry_of, percent, key, limit_key, retry, description, info,
    reason, spec
)
SELECT
    id, queue, priority, rank, created, waits, kids, failures, delay, lane, crashes, timeouts, releases, buries, kicks,
    parked, open_group, branch, any_join, touch, kill, status, attempts, reserves, modified, fence, holder, claimed, started,
    ended, last, until, term, due, grp, batch, ttr, timeout, retry_of, percent, key, limit_key, retry, description, info,
    reason, spec
FROM former;

CREATE OR REPLACE VIEW seen AS
SELECT task.id, task.id AS position, queue, kind, status, priority, fence, holder, until, key, description, grp, batch,
       CASE WHEN any_join THEN 'any' ELSE 'all' END AS joins, waits, kids, due, delay, retry, timeout,
       CASE WHEN touch THEN 'touch' ELSE 'liveness' END AS renewal, ttr, limit_key, parked, nullif(avoid, 0) AS avoids,
       requires, kill, attempts, crashes, reserves, timeouts, releases, buries, kicks, percent, info, reason, branch,
       retry_of, created, modified, started, ended,
       coalesce(length(spec), (SELECT size FROM data WHERE data.task = task.id AND data.key = 'spec'), 0) AS spec_size,
       aside
FROM task JOIN lane ON lane.id = task.lane;

-- Where in `ready` the row of a task lies, if it has one.
CREATE VIEW ready_place AS
SELECT task.id AS task, found.place FROM task,
LATERAL (
    SELECT ready.ctid AS place FROM ready
    WHERE ready.queue = task.queue AND ready.lane = task.lane AND ready.priority = task.priority AND ready.rank = task.rank
    LIMIT 1
) AS found;

-- Whoever was given rights on the tasks keeps them.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT privilege_type AS may, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS who
        FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = 'former'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON task, ready_place TO %s', given.may, given.who);
    END LOOP;
END
$$;

DROP TABLE former;

ALTER TABLE task ADD CONSTRAINT task_pkey PRIMARY KEY (id, queue);
CREATE INDEX task_queue ON task (queue, id) WHERE queue > 0;
CREATE INDEX task_group ON task (grp, id) WHERE grp > 0;
CREATE INDEX task_batch ON task (batch, id) WHERE batch IS NOT NULL;
CREATE INDEX task_until ON task (until) WHERE until IS NOT NULL;
CREATE INDEX task_avoiding ON task (lane) WHERE lane < 0;
CREATE INDEX task_aside ON task (aside, id) WHERE aside IS NOT NULL;
CREATE INDEX task_due ON task (queue, due) WHERE aside = -8;
CREATE INDEX task_kill ON task (id) WHERE kill;
CREATE INDEX task_keyed_ready ON task (queue, limit_key, priority, rank) WHERE keyed = -2 AND NOT parked;
CREATE INDEX task_keyed_parked ON task (queue, limit_key, priority, rank) WHERE keyed = -2 AND parked;
CREATE INDEX task_keyed_leased ON task (queue, limit_key) WHERE keyed IN (-1, 0);
