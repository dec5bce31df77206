SELECT key FROM data WHERE task = ? ORDER BY key
