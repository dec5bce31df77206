SELECT node.id, identity, name, state, until, lease, coalesce(most, slots), queues, kinds, labels, since, seen, vitals
FROM node JOIN identity ON identity.id = node.identity
WHERE node.id = ?
