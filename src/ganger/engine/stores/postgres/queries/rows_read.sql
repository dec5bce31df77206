SELECT task.id, task.queue, task.lane, task.status, task.fence, task.holder, task.until, task.term, task.kids, task.grp,
       task.limit_key, task.waits, task.kill, task.touch, task.ttr, coalesce(node.identity, 0), node.until, node.term,
       coalesce(node.state IN ('active', 'draining'), false)
FROM task LEFT JOIN node ON node.id = task.holder
WHERE task.id = ANY($1::bigint[]) ORDER BY task.id FOR NO KEY UPDATE OF task
