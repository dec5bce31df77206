WITH gone AS MATERIALIZED (
    SELECT node.id, node.state, identity.name FROM node JOIN identity ON identity.id = node.identity
    WHERE NOT node.cleared AND node.state IN ('lost', 'left')
)
SELECT held.id, fence, held.status, started IS NOT NULL, gone.state = 'left', crashes, held.retry, held.queue, kill, gone.name
FROM gone,
LATERAL (SELECT task, queue FROM lease WHERE lease.holder = gone.id LIMIT $1) AS lease,
LATERAL (SELECT * FROM task WHERE task.id = lease.task AND task.queue = lease.queue LIMIT 1) AS held
LIMIT $1
