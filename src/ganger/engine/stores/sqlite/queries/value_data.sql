SELECT CASE WHEN value IS NOT NULL THEN coalesce(substr(value, ? + 1, ?), x'') END, blob, size
FROM data WHERE task = ? AND key = ?
