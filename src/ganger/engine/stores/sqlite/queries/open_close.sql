UPDATE task SET waits = waits - 1, open_group = 0, modified = ? WHERE id = ? AND status = -4 AND open_group = 1
