WITH left_over AS MATERIALIZED (SELECT parent, after FROM follow WHERE parent = ANY($1::bigint[]) ORDER BY parent)
SELECT parent, after, task.status, task.branch, task.reason FROM left_over,
LATERAL (SELECT status, branch, reason FROM task WHERE task.id = left_over.parent) AS task
