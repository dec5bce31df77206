UPDATE node SET until = ?, seen = ? WHERE id = ?
