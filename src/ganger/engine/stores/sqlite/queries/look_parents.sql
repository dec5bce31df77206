SELECT parent, asks FROM edge WHERE child = ? ORDER BY parent LIMIT ?
