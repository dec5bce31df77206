SELECT count(*) FROM lease WHERE holder = $1
