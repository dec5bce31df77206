SELECT id FROM task WHERE id IN carray(?) AND holder = ?
