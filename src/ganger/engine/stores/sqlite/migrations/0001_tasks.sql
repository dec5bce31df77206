-- One row: what the store knows of itself. `tag` is its number, `boot` the boot whose moments its leases mean.
CREATE TABLE store (
    tag INTEGER NOT NULL,
    boot TEXT NOT NULL
);

-- Names need not be unique: a queue is its id, which no later queue gets.
CREATE TABLE queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    policy TEXT NOT NULL,
    paused_until INTEGER NOT NULL DEFAULT 0,
    batch INTEGER NOT NULL DEFAULT 0,
    batch_fill INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0
);

-- Who may take: the tasks of a lane can be taken by the same nodes. Lanes that avoid somebody are negative.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    requires TEXT NOT NULL,
    avoid INTEGER NOT NULL,
    avoid_until INTEGER NOT NULL,
    UNIQUE (kind, requires, avoid, avoid_until)
);

-- `rank` is the id, or its negative where the newest goes first. `holder` is set exactly while there is a lease.
-- A spec of NULL lies in data. `waits` counts open edges (of a group: members and edges), `kids` outgoing edges.
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    status INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    spec BLOB,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    parked INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    holder INTEGER,
    until INTEGER,
    claimed INTEGER,
    started INTEGER,
    ended INTEGER,
    due INTEGER,
    waits INTEGER NOT NULL DEFAULT 0,
    kids INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    open_group INTEGER NOT NULL DEFAULT 0,
    grp INTEGER,
    batch INTEGER,
    key TEXT,
    limit_key TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    reserves INTEGER NOT NULL DEFAULT 0,
    timeouts INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    buries INTEGER NOT NULL DEFAULT 0,
    kicks INTEGER NOT NULL DEFAULT 0,
    kill INTEGER NOT NULL DEFAULT 0,
    branch INTEGER NOT NULL DEFAULT 1,
    any_join INTEGER NOT NULL DEFAULT 0,
    delay INTEGER NOT NULL DEFAULT 0,
    retry TEXT,
    timeout INTEGER,
    touch INTEGER NOT NULL DEFAULT 0,
    ttr INTEGER,
    description TEXT,
    percent REAL,
    info TEXT,
    reason TEXT,
    retry_of INTEGER
);

CREATE INDEX task_ready ON task (queue, lane, priority, rank) WHERE status = -2 AND parked = 0;
CREATE INDEX task_avoiding ON task (lane) WHERE lane < 0;
CREATE INDEX task_due ON task (queue, due) WHERE status = -8;
CREATE INDEX task_leased ON task (holder, queue) WHERE holder IS NOT NULL;
CREATE INDEX task_until ON task (until) WHERE until IS NOT NULL;
CREATE INDEX task_kill ON task (kill) WHERE kill = 1;
CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL;
CREATE INDEX task_group ON task (grp) WHERE grp IS NOT NULL;
CREATE INDEX task_batch ON task (batch) WHERE batch IS NOT NULL;
CREATE INDEX task_queue ON task (queue);
CREATE INDEX task_unusual ON task (status) WHERE (status < -2 OR status > 1);
CREATE INDEX task_keyed_ready ON task (queue, limit_key, priority, rank)
    WHERE limit_key IS NOT NULL AND status = -2 AND parked = 0;
CREATE INDEX task_keyed_parked ON task (queue, limit_key, priority, rank)
    WHERE limit_key IS NOT NULL AND status = -2 AND parked = 1;
CREATE INDEX task_keyed_leased ON task (queue, limit_key) WHERE limit_key IS NOT NULL AND holder IS NOT NULL;

CREATE TABLE edge (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    asks TEXT NOT NULL,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX edge_child ON edge (child, parent);

-- A final task whose children have not all been told yet: those after `after` are left.
CREATE TABLE follow (
    parent INTEGER PRIMARY KEY,
    after INTEGER NOT NULL
);

CREATE TABLE attempt (
    task INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    holder INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    code INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (task, fence)
) WITHOUT ROWID;

CREATE TABLE data (
    task INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB,
    blob TEXT,
    size INTEGER NOT NULL
);
CREATE UNIQUE INDEX data_key ON data (task, key);
CREATE INDEX data_blob ON data (blob) WHERE blob IS NOT NULL;

CREATE TABLE output (
    task INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    stream TEXT NOT NULL,
    start INTEGER NOT NULL,
    body BLOB,
    blob TEXT,
    size INTEGER NOT NULL
);
CREATE UNIQUE INDEX output_start ON output (task, fence, stream, start);
CREATE INDEX output_blob ON output (blob) WHERE blob IS NOT NULL;

CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    fact TEXT NOT NULL,
    queue INTEGER NOT NULL,
    holder INTEGER NOT NULL,
    entries BLOB NOT NULL,
    subject TEXT
);

-- One row per name for ever: lanes and attempts refer to it.
CREATE TABLE identity (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- `cleared`: it is gone, and no lease of it is left.
CREATE TABLE node (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    identity INTEGER NOT NULL,
    token TEXT NOT NULL,
    state TEXT NOT NULL,
    until INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    slots INTEGER,
    queues TEXT,
    kinds TEXT,
    labels TEXT NOT NULL,
    since INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    cleared INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX node_uncleared ON node (id) WHERE cleared = 0 AND state IN ('lost', 'left');

-- Every small number that nearly each commit changes, side by side, so that it writes one page and not three: how many
-- tasks of a queue have a status now (the name is that integer), how often a fact was told (a text), and under the
-- queue -1 the next task, batch and event.
CREATE TABLE book (
    queue INTEGER NOT NULL,
    name NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE VIEW tally AS SELECT queue, name AS status, n FROM book WHERE queue >= 0 AND typeof(name) = 'integer';
CREATE VIEW counter AS SELECT queue, name AS fact, n FROM book WHERE queue >= 0 AND typeof(name) = 'text';

CREATE TABLE audit (
    position INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL,
    hash BLOB NOT NULL
);
