SELECT position, hash FROM audit ORDER BY position DESC LIMIT 1
