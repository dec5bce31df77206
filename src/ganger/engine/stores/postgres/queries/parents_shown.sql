SELECT wanted.child, above.parent, above.asks FROM unnest($1::bigint[]) AS wanted (child),
LATERAL (SELECT parent, asks FROM edge WHERE edge.child = wanted.child AND edge.child > 0 ORDER BY parent LIMIT $2) AS above
