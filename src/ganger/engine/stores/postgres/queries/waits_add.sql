UPDATE task SET waits = waits + 1, status = $1, modified = $2 WHERE id = $3
