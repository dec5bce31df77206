SELECT value, size FROM data WHERE task = ? AND key = 'spec'
