SELECT id, kind, requires, avoid, avoid_until FROM lane
