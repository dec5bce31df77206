SELECT child, asks FROM edge WHERE parent = ANY($1::bigint[]) ORDER BY child
