SELECT id, status, branch, reason FROM task WHERE id IN carray(?) AND (status > 0 OR status IN (-3, -5, -6))
