INSERT INTO identity (name) VALUES ($1) RETURNING id
