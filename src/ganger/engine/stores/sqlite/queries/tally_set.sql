INSERT INTO tally (queue, status, n) VALUES (?, ?, ?) ON CONFLICT (queue, status) DO UPDATE SET n = excluded.n
