SELECT status, fence, holder, until FROM task WHERE id = ?
