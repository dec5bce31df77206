INSERT INTO node (identity, token, state, until, term, lease, slots, queues, kinds, labels, since, seen)
VALUES ($1, $2, 'active', $3, $4, $4, $5, $6, $7, $8, $9, $9)
RETURNING id
