SELECT task.id, lane, priority, description, value, blob, size
FROM task LEFT JOIN data ON data.task = task.id AND data.key = 'result'
WHERE task.id = ANY($1::bigint[]) ORDER BY task.id
