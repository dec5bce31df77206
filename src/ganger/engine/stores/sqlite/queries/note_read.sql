SELECT queue, status, fence, holder, until, touch, ttr, started FROM task WHERE id = ?
