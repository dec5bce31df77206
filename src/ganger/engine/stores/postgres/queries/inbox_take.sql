DELETE FROM inbox
WHERE number = ANY(ARRAY(
    SELECT number FROM inbox WHERE error IS NULL AND number > $1 ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED
))
RETURNING number, key, body
