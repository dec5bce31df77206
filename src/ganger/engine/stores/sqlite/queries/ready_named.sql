SELECT priority, rank, queue, id, lane, spec, fence, attempts, crashes, retry, timeout, touch, ttr FROM task
WHERE id IN carray(?) AND status = -2 AND parked = 0
