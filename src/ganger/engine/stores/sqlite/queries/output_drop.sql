DELETE FROM output WHERE rowid IN carray(?)
