DELETE FROM data WHERE task = $1 AND key = $2
