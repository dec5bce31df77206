UPDATE task SET until = ?, modified = ? WHERE id = ?
