DELETE FROM event WHERE position <= ?
