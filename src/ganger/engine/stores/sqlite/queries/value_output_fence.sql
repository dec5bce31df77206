SELECT max(fence) FROM output WHERE task = ? AND fence <= ? AND stream = ?
