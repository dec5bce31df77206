SELECT start + size FROM output WHERE task = ? AND fence = ? AND stream = ? AND start <= ? ORDER BY start DESC LIMIT 1
