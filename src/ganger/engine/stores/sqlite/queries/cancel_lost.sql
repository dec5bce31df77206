UPDATE task SET status = -5, waits = ?, reason = ?, ended = ?, modified = ? WHERE id = ?
