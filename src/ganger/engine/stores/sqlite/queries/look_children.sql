SELECT child, asks FROM edge WHERE parent = ? ORDER BY child LIMIT ?
