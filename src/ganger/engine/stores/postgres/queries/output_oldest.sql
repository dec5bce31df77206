SELECT output.number, output.size FROM output JOIN task ON task.id = output.task
WHERE task.status > 0 OR task.status IN (-3, -5, -6) ORDER BY output.number LIMIT $1
