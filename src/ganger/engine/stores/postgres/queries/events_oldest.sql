SELECT position, at, entries FROM event ORDER BY position LIMIT $1
