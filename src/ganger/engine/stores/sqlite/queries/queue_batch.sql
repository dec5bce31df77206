UPDATE queue SET batch = ?, batch_fill = ? WHERE id = ?
