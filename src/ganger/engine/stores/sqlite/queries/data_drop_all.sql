DELETE FROM data WHERE task IN carray(?)
