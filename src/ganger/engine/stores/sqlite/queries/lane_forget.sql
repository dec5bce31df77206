DELETE FROM lane WHERE id = ?
