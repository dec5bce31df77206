SELECT ARRAY(SELECT key FROM data WHERE task = $1) AS keys, ARRAY(SELECT DISTINCT stream FROM output WHERE task = $1) AS streams
