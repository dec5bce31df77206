SELECT id, queue, lane, waits, failures, kids, grp, status FROM task WHERE id = ?
