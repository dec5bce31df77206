SELECT position, at, fact, queue, holder, entries, subject FROM event WHERE position > ? ORDER BY position LIMIT ?
