UPDATE task SET kill = 0 WHERE kill = 1 AND id IN carray(?)
