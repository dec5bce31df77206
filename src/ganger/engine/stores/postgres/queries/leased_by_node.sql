SELECT count(*) FROM task WHERE holder = $1
