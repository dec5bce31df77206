SELECT task.id, fence, task.status, started IS NOT NULL, node.state = 'left', crashes, task.retry, queue, kill, name
FROM task JOIN node ON node.id = task.holder JOIN identity ON identity.id = node.identity
WHERE task.until <= $1 AND task.term <= $2 ORDER BY task.until LIMIT $3
