UPDATE task SET kill = true, modified = $1 WHERE id = $2
