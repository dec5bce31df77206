DELETE FROM output WHERE task IN carray(?)
