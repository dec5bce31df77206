SELECT DISTINCT stream FROM output WHERE task = ?
