INSERT INTO queue (name, policy) VALUES (?, ?) RETURNING id
