SELECT id FROM task WHERE queue = $1 ORDER BY id LIMIT $2
