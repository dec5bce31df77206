INSERT INTO audit (position, at, who, action, detail, hash) VALUES (?, ?, ?, ?, ?, ?)
