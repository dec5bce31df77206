SELECT any_join FROM task WHERE id = $1
