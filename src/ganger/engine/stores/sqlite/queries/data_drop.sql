DELETE FROM data WHERE task = ? AND key = ?
