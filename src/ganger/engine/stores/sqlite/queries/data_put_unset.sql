INSERT INTO data (task, key, value, blob, size) VALUES (?, ?, ?, ?, ?) ON CONFLICT (task, key) DO NOTHING
