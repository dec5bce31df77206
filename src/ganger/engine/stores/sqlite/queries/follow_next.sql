SELECT parent, after, task.status, task.branch, task.reason FROM follow JOIN task ON task.id = parent LIMIT ?
