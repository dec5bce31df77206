SELECT child, asks FROM edge WHERE parent = ? AND child > ? ORDER BY child LIMIT ?
