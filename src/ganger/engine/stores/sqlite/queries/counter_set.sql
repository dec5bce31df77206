INSERT INTO counter (queue, fact, n) VALUES (?, ?, ?) ON CONFLICT (queue, fact) DO UPDATE SET n = excluded.n
