SELECT priority, rank, queue, id, lane FROM task WHERE id IN carray(?) AND status = -2 AND parked = 0
