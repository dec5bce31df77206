UPDATE node SET until = ?, seen = ?, vitals = coalesce(?, vitals) WHERE id = ?
