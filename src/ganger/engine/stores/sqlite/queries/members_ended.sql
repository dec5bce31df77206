SELECT id FROM task WHERE grp = ? AND grp IS NOT NULL AND ended < ? LIMIT ?
