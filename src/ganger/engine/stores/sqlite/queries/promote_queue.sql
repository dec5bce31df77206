UPDATE task SET status = -2, parked = limit_key IS NOT NULL, modified = ?1
WHERE id IN (SELECT id FROM task WHERE status = -8 AND queue = ?2 AND due <= ?1 ORDER BY due LIMIT ?3)
RETURNING id, lane, limit_key, fence
