SELECT position, at, fact, queue, holder, entries, subject FROM event WHERE position > $1 ORDER BY position LIMIT $2
