SELECT id FROM task WHERE queue = :queue AND id > :after ORDER BY id ASC LIMIT 1 OFFSET :walk
