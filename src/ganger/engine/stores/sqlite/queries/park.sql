UPDATE task SET parked = 1 WHERE id IN carray(?)
