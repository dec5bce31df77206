INSERT INTO data (task, key, value, blob, size) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (task, key) DO NOTHING
