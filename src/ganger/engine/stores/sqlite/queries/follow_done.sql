DELETE FROM follow WHERE parent = ?
