DELETE FROM tally WHERE queue = ?
