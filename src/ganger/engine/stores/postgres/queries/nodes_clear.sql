UPDATE node SET cleared = true WHERE NOT cleared AND state IN ('lost', 'left')
    AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.holder = node.id)
RETURNING id
