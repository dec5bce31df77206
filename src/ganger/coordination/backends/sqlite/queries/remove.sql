DELETE FROM document WHERE name = ?1 AND term = ?2 AND number = ?3 RETURNING number
