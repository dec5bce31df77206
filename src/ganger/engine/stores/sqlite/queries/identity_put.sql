INSERT INTO identity (name) VALUES (?) RETURNING id
