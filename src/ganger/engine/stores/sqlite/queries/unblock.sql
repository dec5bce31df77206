UPDATE task SET status = ?, waits = ?, due = ?, parked = limit_key IS NOT NULL, modified = ? WHERE id = ?
