SELECT parent, child, asks FROM edge WHERE parent = ANY($1::bigint[]) ORDER BY parent, child
