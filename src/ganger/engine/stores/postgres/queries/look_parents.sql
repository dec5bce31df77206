SELECT parent, asks FROM edge WHERE child = $1 ORDER BY parent LIMIT $2
