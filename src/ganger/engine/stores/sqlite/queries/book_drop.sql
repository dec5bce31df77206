DELETE FROM book WHERE queue = ?
