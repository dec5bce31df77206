INSERT INTO task (id, queue, lane, status, priority, rank, spec, created, modified, waits, kids, description)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
