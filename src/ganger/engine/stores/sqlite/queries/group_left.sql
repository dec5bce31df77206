UPDATE task SET waits = waits - ? WHERE id = ? AND status IN (-4, -7)
