INSERT INTO data (task, key, value, blob, size) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (task, key) DO UPDATE SET value = excluded.value, blob = excluded.blob, size = excluded.size
