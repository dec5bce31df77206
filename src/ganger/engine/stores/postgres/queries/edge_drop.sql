DELETE FROM edge WHERE parent = $1 AND child = $2 RETURNING asks
