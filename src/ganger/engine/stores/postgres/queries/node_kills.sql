SELECT id FROM task WHERE kill AND holder = $1 ORDER BY id
