DELETE FROM edge WHERE parent IN carray(?)
