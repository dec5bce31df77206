INSERT INTO task (id, queue, lane, status, priority, rank, spec, created, modified, waits, kids, description)
SELECT ?1 + rowid, ?3, ?4, ?5, ?6, (?1 + rowid) * ?7, value, ?2, ?2, ?8, ?9, ?10 FROM carray(?11)
