SELECT child, asks FROM edge WHERE parent = $1 AND child > $2 ORDER BY child LIMIT $3
