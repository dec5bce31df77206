UPDATE task SET percent = ?, info = ?, modified = ? WHERE id = ?
