INSERT INTO ganger_epoch (lock, term, number) VALUES ($1, $2, $3)
ON CONFLICT (lock) DO UPDATE SET term = excluded.term, number = excluded.number
WHERE (ganger_epoch.term, ganger_epoch.number) <= (excluded.term, excluded.number)
RETURNING term
