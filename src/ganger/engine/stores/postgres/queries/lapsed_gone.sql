WITH gone AS MATERIALIZED (
    SELECT node.id, node.state, identity.name FROM node JOIN identity ON identity.id = node.identity
    WHERE NOT node.cleared AND node.state IN ('lost', 'left')
)
SELECT task.id, fence, task.status, started IS NOT NULL, gone.state = 'left', crashes, task.retry, queue, kill, gone.name
FROM gone CROSS JOIN LATERAL (SELECT * FROM task WHERE task.holder = gone.id LIMIT $1) AS task
LIMIT $1
