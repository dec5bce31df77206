SELECT id, status, branch, reason FROM task WHERE id IN carray(?)
