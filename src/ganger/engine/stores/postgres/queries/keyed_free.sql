UPDATE task SET parked = false WHERE queue = $1 AND limit_key = $2 AND status = -2 AND parked
