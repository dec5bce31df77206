UPDATE task SET kill = 1, modified = ? WHERE id = ?
