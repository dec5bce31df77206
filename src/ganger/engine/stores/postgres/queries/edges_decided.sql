SELECT parent, asks, status, branch, reason FROM edge JOIN task ON task.id = parent
WHERE child = $1 AND child > 0 AND (status > 0 OR status IN (-3, -5, -6)) ORDER BY parent
