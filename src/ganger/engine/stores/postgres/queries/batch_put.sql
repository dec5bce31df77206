INSERT INTO batch (queue, number, fill) VALUES ($1, $2, $3)
ON CONFLICT (queue) DO UPDATE SET number = excluded.number, fill = excluded.fill
