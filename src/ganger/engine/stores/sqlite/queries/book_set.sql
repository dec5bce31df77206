INSERT INTO book (queue, name, n) VALUES (?, ?, ?) ON CONFLICT (queue, name) DO UPDATE SET n = excluded.n
