UPDATE task SET lane = ? WHERE id = ?
