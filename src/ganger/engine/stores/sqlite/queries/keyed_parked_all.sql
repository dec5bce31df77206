UPDATE task SET parked = 0
WHERE queue = ? AND limit_key = ? AND limit_key IS NOT NULL AND status = -2 AND parked = 1
RETURNING lane
