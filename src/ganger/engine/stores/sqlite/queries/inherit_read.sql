SELECT task.id, lane, priority, description, value, blob, size
FROM task LEFT JOIN data ON data.task = task.id AND data.key = 'result'
WHERE task.id IN carray(?)
