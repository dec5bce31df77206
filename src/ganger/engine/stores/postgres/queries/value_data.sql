SELECT substr(value, ($1 + 1)::integer, $2), blob, size FROM data WHERE task = $3 AND key = $4
