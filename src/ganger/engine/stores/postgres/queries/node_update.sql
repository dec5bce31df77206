UPDATE node SET state = 'active', until = $1, term = $2, lease = $2, slots = $3, queues = $4, kinds = $5, labels = $6,
    seen = $7, vitals = NULL
WHERE id = $8
