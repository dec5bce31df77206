SELECT limit_key FROM task WHERE queue = ?1 AND limit_key IS NOT NULL AND status = -2 AND parked = 0
UNION
SELECT limit_key FROM task WHERE queue = ?1 AND limit_key IS NOT NULL AND status = -2 AND parked = 1
