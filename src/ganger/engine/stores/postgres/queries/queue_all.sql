SELECT id, name, policy, paused_until FROM queue ORDER BY id
