SELECT start + size FROM output WHERE task = $1 AND fence = $2 AND stream = $3 ORDER BY start DESC LIMIT 1
