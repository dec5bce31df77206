SELECT child, asks FROM edge WHERE parent = $1 ORDER BY child LIMIT $2
