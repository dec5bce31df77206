UPDATE task SET spec = NULL WHERE id = ?
