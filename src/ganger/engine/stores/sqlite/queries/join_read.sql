SELECT any_join FROM task WHERE id = ?
