SELECT number FROM inbox WHERE error IS NULL AND number > $1 ORDER BY number LIMIT 1
