SELECT name FROM book WHERE queue = $1 AND n > 0 AND name ~ '^-?[0-9]+$'
