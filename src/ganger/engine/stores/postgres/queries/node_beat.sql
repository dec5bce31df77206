UPDATE node SET until = $1, term = $2, seen = $3, vitals = coalesce($4, vitals) WHERE id = $5
