UPDATE queue SET name = $1, policy = $2, paused_until = $3 WHERE id = $4
