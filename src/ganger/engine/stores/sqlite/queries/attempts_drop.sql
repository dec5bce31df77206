DELETE FROM attempt WHERE task IN carray(?)
