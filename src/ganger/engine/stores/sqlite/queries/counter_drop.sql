DELETE FROM counter WHERE queue = ?
