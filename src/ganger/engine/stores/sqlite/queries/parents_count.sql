SELECT count(*) FROM task WHERE id IN carray(?)
