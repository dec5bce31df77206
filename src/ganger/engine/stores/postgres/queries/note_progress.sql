UPDATE task SET percent = $1, info = $2, modified = $3 WHERE id = $4
