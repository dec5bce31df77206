INSERT INTO node (identity, token, state, until, lease, slots, queues, kinds, labels, since, seen)
VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING id
