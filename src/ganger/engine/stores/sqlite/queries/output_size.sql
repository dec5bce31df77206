SELECT coalesce(sum(size), 0) FROM output WHERE task IN carray(?)
