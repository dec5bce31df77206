SELECT term, number, body FROM document WHERE name = ?1
