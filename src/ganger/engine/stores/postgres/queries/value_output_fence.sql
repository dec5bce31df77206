SELECT max(fence) FROM output WHERE task = $1 AND fence <= $2 AND stream = $3
