SELECT substr(value, ? + 1, ?), blob, size FROM data WHERE task = ? AND key = ?
