SELECT task.id FROM followed JOIN task ON task.id = followed.task WHERE task.holder = $1 AND followed.until > $2
ORDER BY task.id
