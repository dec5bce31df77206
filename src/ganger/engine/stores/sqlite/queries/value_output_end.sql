SELECT start + size FROM output WHERE task = ? AND fence = ? AND stream = ? ORDER BY start DESC LIMIT 1
