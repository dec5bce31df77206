SELECT parent, asks FROM edge WHERE child = $1 AND child > 0 ORDER BY parent
