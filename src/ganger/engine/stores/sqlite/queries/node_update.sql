UPDATE node SET state = 'active', until = ?, lease = ?, slots = ?, queues = ?, kinds = ?, labels = ?, seen = ?, vitals = NULL WHERE id = ?
