INSERT INTO lane (id, kind, requires, avoid, avoid_until) VALUES (?, ?, ?, ?, ?)
