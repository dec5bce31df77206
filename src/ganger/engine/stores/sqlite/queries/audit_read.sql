SELECT position, at, who, action, detail, hash FROM audit WHERE position > ? ORDER BY position LIMIT ?
