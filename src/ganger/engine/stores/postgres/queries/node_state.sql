UPDATE node SET state = $1, seen = $2 WHERE id = $3
