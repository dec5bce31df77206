SELECT id FROM task WHERE id > :after ORDER BY id ASC LIMIT 1 OFFSET :walk
