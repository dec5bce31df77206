SELECT count(*) FROM task WHERE queue = $1 AND limit_key = $2 AND keyed IN (-1, 0)
