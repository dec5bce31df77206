INSERT INTO edge (parent, child, asks) VALUES (?, ?, ?) ON CONFLICT (parent, child) DO NOTHING
