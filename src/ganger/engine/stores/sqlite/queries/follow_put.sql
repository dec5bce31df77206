INSERT INTO follow (parent, after) VALUES (?, ?) ON CONFLICT (parent) DO UPDATE SET after = excluded.after
