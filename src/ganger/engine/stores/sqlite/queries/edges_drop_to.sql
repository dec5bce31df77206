DELETE FROM edge WHERE child IN carray(?) RETURNING parent
