UPDATE node SET cleared = 1 WHERE id = ?
