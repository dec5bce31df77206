UPDATE task SET waits = waits - column1 FROM (VALUES (?, ?)) WHERE id = column2 AND status IN (-4, -7)
