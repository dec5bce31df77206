-- A claim and a settle change the status and the holder of a task. As long as an index of the task's own table holds
-- either, each of them writes every index of the task anew. So the tasks that are ready, and those that are leased, are
-- found by tables of their own, and no index of `task` holds what a plain claim or settle changes: both are HOT.

-- Tasks come at one end of a table and go at the other. A vacuum that gives the free end of such a file back locks all
-- others out for it, and the next tasks ask for it again: these files keep their size.

-- Which tasks may be claimed, in the order of claiming: queued and not parked. Whoever writes a row here has locked its
-- task. A row is believed only if the task still is what it was when the row was written.
CREATE TABLE ready (
    queue bigint NOT NULL,
    lane integer NOT NULL,
    priority bigint NOT NULL,
    rank bigint NOT NULL,
    task bigint NOT NULL,
    fence bigint NOT NULL,
    PRIMARY KEY (queue, lane, priority, rank)
) WITH (vacuum_truncate = false, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
INSERT INTO ready SELECT queue, lane, priority, rank, id, fence FROM task WHERE status = -2 AND NOT parked;

-- Which tasks a node holds. Whoever writes a row here has locked its task.
CREATE TABLE lease (
    holder bigint NOT NULL,
    task bigint NOT NULL,
    queue bigint NOT NULL,
    PRIMARY KEY (holder, task)
) WITH (vacuum_truncate = false, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
INSERT INTO lease SELECT holder, id, queue FROM task WHERE holder IS NOT NULL;

DROP INDEX task_ready, task_due, task_leased, task_kill, task_unusual, task_keyed_ready, task_keyed_parked,
    task_keyed_leased, task_queue, task_group, edge_child;

-- `aside` is the status of a task that is not on the usual way from queued to succeeded. `keyed` is the status of a task
-- of a concurrency key that is queued or leased.
ALTER TABLE task
    ADD COLUMN aside integer GENERATED ALWAYS AS (CASE WHEN status < -2 OR status > 1 THEN status END) STORED,
    ADD COLUMN keyed integer GENERATED ALWAYS AS (
        CASE WHEN limit_key IS NOT NULL AND status BETWEEN -2 AND 0 THEN status END
    ) STORED,
    SET (fillfactor = 33, vacuum_truncate = false);
ALTER TABLE event SET (vacuum_truncate = false, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Found by those alone who say `queue > 0`, and so on: while a table is small, such an index looks as good as the primary
-- key to whoever looks for an id, and a plan that is made then is kept when the table has grown.
CREATE INDEX task_queue ON task (queue, id) WHERE queue > 0;
CREATE INDEX task_group ON task (grp, id) WHERE grp > 0;
CREATE INDEX edge_child ON edge (child, parent) WHERE child > 0;

CREATE INDEX task_aside ON task (aside, id) WHERE aside IS NOT NULL;
CREATE INDEX task_due ON task (queue, due) WHERE aside = -8;
CREATE INDEX task_kill ON task (id) WHERE kill;
CREATE INDEX task_keyed_ready ON task (queue, limit_key, priority, rank) WHERE keyed = -2 AND NOT parked;
CREATE INDEX task_keyed_parked ON task (queue, limit_key, priority, rank) WHERE keyed = -2 AND parked;
CREATE INDEX task_keyed_leased ON task (queue, limit_key) WHERE keyed IN (-1, 0);

CREATE OR REPLACE VIEW seen AS
SELECT task.id, task.id AS position, queue, kind, status, priority, fence, holder, until, key, description, grp, batch,
       CASE WHEN any_join THEN 'any' ELSE 'all' END AS joins, waits, kids, due, delay, retry, timeout,
       CASE WHEN touch THEN 'touch' ELSE 'liveness' END AS renewal, ttr, limit_key, parked, nullif(avoid, 0) AS avoids,
       requires, kill, attempts, crashes, reserves, timeouts, releases, buries, kicks, percent, info, reason, branch,
       retry_of, created, modified, started, ended,
       coalesce(length(spec), (SELECT size FROM data WHERE data.task = task.id AND data.key = 'spec'), 0) AS spec_size,
       aside
FROM task JOIN lane ON lane.id = task.lane;
