DELETE FROM event WHERE position <= $1
