DELETE FROM task WHERE id IN carray(?)
