UPDATE task SET waits = waits + ?, status = ?, modified = ? WHERE id = ?
