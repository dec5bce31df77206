UPDATE task SET waits = ?, modified = ? WHERE id = ?
