UPDATE queue SET name = ?, policy = ?, paused_until = ? WHERE id = ?
