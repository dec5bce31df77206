WITH me AS MATERIALIZED (
    SELECT node.id, identity, name, state, until, lease, coalesce(most, slots) AS slots, queues, kinds, labels, since, seen, vitals, term
    FROM node JOIN identity ON identity.id = node.identity
    WHERE node.id = $1
)
SELECT version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall,
       EXISTS (SELECT 1 FROM followed) AS follows, EXISTS (SELECT 1 FROM task WHERE aside = -8) AS delays,
       EXISTS (SELECT 1 FROM inbox WHERE error IS NULL) AS letters, me.*
FROM store LEFT JOIN me ON true
