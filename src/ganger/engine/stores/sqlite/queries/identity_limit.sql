UPDATE identity SET most = ? WHERE id = ?
