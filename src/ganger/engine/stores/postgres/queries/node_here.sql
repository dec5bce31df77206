SELECT node.id, identity, name, state, until, lease, coalesce(most, slots) AS slots, queues, kinds, labels, since, seen, vitals, term
FROM node JOIN identity ON identity.id = node.identity
WHERE state IN ('active', 'draining') ORDER BY node.id
