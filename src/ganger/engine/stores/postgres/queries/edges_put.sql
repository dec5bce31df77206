INSERT INTO edge (parent, child, asks)
SELECT row.parent, row.child, row.asks FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS row (parent, child, asks)
ON CONFLICT (parent, child) DO NOTHING
