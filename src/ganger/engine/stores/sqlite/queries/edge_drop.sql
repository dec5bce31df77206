DELETE FROM edge WHERE parent = ? AND child = ? RETURNING asks
