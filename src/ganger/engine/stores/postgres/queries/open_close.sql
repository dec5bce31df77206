UPDATE task SET waits = waits - 1, open_group = false, modified = $1
WHERE id = $2 AND status IN (-4, -7) AND open_group
