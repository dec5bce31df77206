SELECT parent, asks FROM edge WHERE child = ?
