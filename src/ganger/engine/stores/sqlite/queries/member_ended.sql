UPDATE task SET waits = waits - ?, failures = failures + ?, modified = ? WHERE id = ? AND status IN (-4, -7)
RETURNING id, queue, lane, waits, failures, kids, grp, status
