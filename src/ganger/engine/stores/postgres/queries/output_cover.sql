DELETE FROM output WHERE task = $1 AND fence = $2 AND stream = $3 AND start >= $4 AND start + size <= $5 RETURNING size
