UPDATE task SET modified = ? WHERE id = ?
