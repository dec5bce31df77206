UPDATE identity SET most = $1 WHERE id = $2
