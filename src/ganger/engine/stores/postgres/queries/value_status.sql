SELECT status, fence FROM task WHERE id = $1
