SELECT position, at, who, action, detail, hash FROM audit WHERE position > $1 ORDER BY position LIMIT $2
