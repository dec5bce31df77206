UPDATE node SET state = ?, seen = ? WHERE id = ?
