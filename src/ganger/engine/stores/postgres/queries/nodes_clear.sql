UPDATE node SET cleared = true WHERE NOT cleared AND state IN ('lost', 'left')
    AND NOT EXISTS (SELECT 1 FROM task WHERE task.holder = node.id)
RETURNING id
