UPDATE task SET modified = $1 WHERE id = $2
