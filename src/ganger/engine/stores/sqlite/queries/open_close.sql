UPDATE task SET waits = waits - 1, open_group = 0, modified = ? WHERE id = ? AND status IN (-4, -7) AND open_group = 1
