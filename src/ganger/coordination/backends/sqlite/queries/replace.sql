UPDATE document SET number = number + 1, body = ?4 WHERE name = ?1 AND term = ?2 AND number = ?3 RETURNING number
