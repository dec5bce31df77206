INSERT INTO follow (parent, after) VALUES ($1, $2) ON CONFLICT (parent) DO UPDATE SET after = excluded.after
