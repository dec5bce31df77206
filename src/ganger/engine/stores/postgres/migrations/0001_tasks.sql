-- One row: what the store knows of itself, and the turnstile of commits. Who hands out positions holds it until the
-- commit, so that they are handed out in the order of commits. `version` grows when queues or lanes change.
CREATE TABLE store (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    tag bigint NOT NULL,
    boot text NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    next_task bigint NOT NULL DEFAULT 1,
    next_batch bigint NOT NULL DEFAULT 1,
    next_event bigint NOT NULL DEFAULT 1,
    audit_position bigint NOT NULL DEFAULT 0,
    audit_hash bytea NOT NULL
) WITH (fillfactor = 10);

-- Names need not be unique: a queue is its id, which no later queue gets. A claim of a limited queue locks its row.
CREATE TABLE queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    policy text NOT NULL,
    paused_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The batch that a queue fills now. Apart from the queue: a submit holds the turnstile when it comes here.
CREATE TABLE batch (
    queue bigint PRIMARY KEY,
    number bigint NOT NULL,
    fill bigint NOT NULL
) WITH (fillfactor = 50);

-- Who may take: the tasks of a lane can be taken by the same nodes. Lanes that avoid somebody are negative.
CREATE TABLE lane (
    id integer PRIMARY KEY,
    kind text NOT NULL,
    requires text[] NOT NULL,
    avoid bigint NOT NULL,
    avoid_until bigint NOT NULL,
    UNIQUE (kind, requires, avoid, avoid_until)
);

-- `rank` is the id, or its negative where the newest goes first. `holder` is set exactly while there is a lease; `term`
-- is the length of one that has an end of its own. A spec of NULL lies in data. `waits` counts open edges (of a group:
-- members and edges), `kids` outgoing edges. `last` is who held a task that simply succeeded: its last attempt is then
-- told by the task itself, and has no row of its own. The queue is in the primary key, so that the table can be partitioned by
-- it; what is unique over all queues has a table of its own.
CREATE TABLE task (
    id bigint NOT NULL,
    queue bigint NOT NULL,
    lane integer NOT NULL,
    status integer NOT NULL,
    priority bigint NOT NULL,
    rank bigint NOT NULL,
    spec bytea,
    created bigint NOT NULL,
    modified bigint NOT NULL,
    parked boolean NOT NULL DEFAULT false,
    fence bigint NOT NULL DEFAULT 0,
    holder bigint,
    until bigint,
    term bigint,
    claimed bigint,
    last bigint,
    started bigint,
    ended bigint,
    due bigint,
    waits bigint NOT NULL DEFAULT 0,
    kids bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    open_group boolean NOT NULL DEFAULT false,
    grp bigint,
    batch bigint,
    key text,
    limit_key text,
    attempts integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    reserves integer NOT NULL DEFAULT 0,
    timeouts integer NOT NULL DEFAULT 0,
    releases integer NOT NULL DEFAULT 0,
    buries integer NOT NULL DEFAULT 0,
    kicks integer NOT NULL DEFAULT 0,
    kill boolean NOT NULL DEFAULT false,
    branch boolean NOT NULL DEFAULT true,
    any_join boolean NOT NULL DEFAULT false,
    delay bigint NOT NULL DEFAULT 0,
    retry text,
    timeout bigint,
    touch boolean NOT NULL DEFAULT false,
    ttr bigint,
    description text,
    percent double precision,
    info text,
    reason text,
    retry_of bigint,
    PRIMARY KEY (id, queue)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX task_ready ON task (queue, lane, priority, rank) WHERE status = -2 AND NOT parked;
CREATE INDEX task_avoiding ON task (lane) WHERE lane < 0;
CREATE INDEX task_due ON task (queue, due) WHERE status = -8;
CREATE INDEX task_leased ON task (holder, queue) WHERE holder IS NOT NULL;
CREATE INDEX task_until ON task (until) WHERE until IS NOT NULL;
CREATE INDEX task_kill ON task (holder) WHERE kill;
CREATE INDEX task_group ON task (grp, id) WHERE grp IS NOT NULL;
CREATE INDEX task_batch ON task (batch, id) WHERE batch IS NOT NULL;
CREATE INDEX task_queue ON task (queue, id);
CREATE INDEX task_unusual ON task (status, id) WHERE status < -2 OR status > 1;
CREATE INDEX task_keyed_ready ON task (queue, limit_key, priority, rank)
    WHERE limit_key IS NOT NULL AND status = -2 AND NOT parked;
CREATE INDEX task_keyed_parked ON task (queue, limit_key, priority, rank)
    WHERE limit_key IS NOT NULL AND status = -2 AND parked;
CREATE INDEX task_keyed_leased ON task (queue, limit_key) WHERE limit_key IS NOT NULL AND holder IS NOT NULL;

-- A key belongs to one task of all queues.
CREATE TABLE task_key (
    key text PRIMARY KEY,
    task bigint NOT NULL
);

CREATE TABLE edge (
    parent bigint NOT NULL,
    child bigint NOT NULL,
    asks text NOT NULL,
    PRIMARY KEY (parent, child)
);
CREATE INDEX edge_child ON edge (child, parent);

-- A final task whose children have not all been told yet: those after `after` are left.
CREATE TABLE follow (
    parent bigint PRIMARY KEY,
    after bigint NOT NULL
);

CREATE TABLE attempt (
    task bigint NOT NULL,
    fence bigint NOT NULL,
    holder bigint NOT NULL,
    claimed bigint NOT NULL,
    started bigint,
    ended bigint NOT NULL,
    outcome text NOT NULL,
    code integer NOT NULL,
    reason text,
    PRIMARY KEY (task, fence)
);

CREATE TABLE data (
    task bigint NOT NULL,
    key text NOT NULL,
    value bytea,
    blob text,
    size bigint NOT NULL,
    PRIMARY KEY (task, key)
);
CREATE INDEX data_blob ON data (blob) WHERE blob IS NOT NULL;

CREATE TABLE output (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL,
    fence bigint NOT NULL,
    stream text NOT NULL,
    start bigint NOT NULL,
    body bytea,
    blob text,
    size bigint NOT NULL,
    UNIQUE (task, fence, stream, start)
);
CREATE INDEX output_blob ON output (blob) WHERE blob IS NOT NULL;

-- Whose output somebody reads as it comes, and until when. A crash of the server may forget them.
CREATE UNLOGGED TABLE followed (
    task bigint PRIMARY KEY,
    until bigint NOT NULL
);

CREATE TABLE event (
    position bigint PRIMARY KEY,
    at bigint NOT NULL,
    fact text NOT NULL,
    queue bigint NOT NULL,
    holder bigint NOT NULL,
    entries bytea NOT NULL,
    subject text
);

-- One row per name for ever: lanes and attempts refer to it.
CREATE TABLE identity (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

-- `term` is the length that its lease was last given; `cleared`: it is gone, and no lease of it is left.
CREATE TABLE node (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity bigint NOT NULL,
    token text NOT NULL,
    state text NOT NULL,
    until bigint NOT NULL,
    term bigint NOT NULL,
    lease bigint NOT NULL,
    slots integer,
    queues text[],
    kinds text[],
    labels text[] NOT NULL,
    since bigint NOT NULL,
    seen bigint NOT NULL,
    vitals text,
    cleared boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX node_uncleared ON node (id) WHERE NOT cleared AND state IN ('lost', 'left');

-- How many tasks of a queue have a status now (its number), and how often a fact was told (its name). Written behind
-- the turnstile alone.
CREATE TABLE book (
    queue bigint NOT NULL,
    name text NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (queue, name)
) WITH (fillfactor = 10);

CREATE TABLE audit (
    position bigint PRIMARY KEY,
    at bigint NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    detail text NOT NULL,
    hash bytea NOT NULL
);

-- A task as anybody sees it.
CREATE VIEW seen AS
SELECT task.id, task.id AS position, queue, kind, status, priority, fence, holder, until, key, description, grp, batch,
       CASE WHEN any_join THEN 'any' ELSE 'all' END AS joins, waits, kids, due, delay, retry, timeout,
       CASE WHEN touch THEN 'touch' ELSE 'liveness' END AS renewal, ttr, limit_key, parked, nullif(avoid, 0) AS avoids,
       requires, kill, attempts, crashes, reserves, timeouts, releases, buries, kicks, percent, info, reason, branch,
       retry_of, created, modified, started, ended,
       coalesce(length(spec), (SELECT size FROM data WHERE data.task = task.id AND data.key = 'spec'), 0) AS spec_size
FROM task JOIN lane ON lane.id = task.lane;
