SELECT parent, child, asks FROM edge WHERE parent IN carray(?)
