INSERT INTO lane (id, kind, requires, avoid, avoid_until) VALUES ($1, $2, $3, $4, $5)
