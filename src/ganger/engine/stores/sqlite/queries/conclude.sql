UPDATE task SET status = ?, reason = ?, ended = ?, modified = ? WHERE id = ?
