INSERT INTO edge (parent, child, asks) VALUES (?, ?, ?)
