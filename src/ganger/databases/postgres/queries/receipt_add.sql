INSERT INTO receipt (writer, n) VALUES ($1, 0)
