DELETE FROM edge WHERE parent = $1 AND child IN (SELECT child FROM edge WHERE parent = $1 ORDER BY child LIMIT $2)
RETURNING child
