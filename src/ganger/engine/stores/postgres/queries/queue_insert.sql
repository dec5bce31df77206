INSERT INTO queue (name, policy, paused_until) VALUES ($1, $2, $3) RETURNING id
