DELETE FROM queue WHERE id = ?
