SELECT id FROM task
WHERE id > $1
  AND queue = $3 AND queue > 0
ORDER BY id OFFSET $2 LIMIT 1
