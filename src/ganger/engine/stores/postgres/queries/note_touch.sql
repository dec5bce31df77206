UPDATE task SET until = $1, term = $2, modified = $3 WHERE id = $4
