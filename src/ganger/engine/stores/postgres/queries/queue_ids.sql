SELECT id FROM task WHERE queue = $1 AND queue > 0 ORDER BY id LIMIT $2
