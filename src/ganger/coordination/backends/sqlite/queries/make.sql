INSERT INTO document (name, term, number, body) VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO NOTHING RETURNING number
