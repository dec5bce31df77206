UPDATE task SET parked = 0 WHERE id IN carray(?) AND parked = 1 RETURNING lane
