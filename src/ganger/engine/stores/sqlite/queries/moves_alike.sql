SELECT count(*) FROM task
WHERE id IN carray(?1)
    AND +queue = ?2 AND +lane = ?3 AND +status = ?4 AND +fence = ?5 AND +holder IS ?6
    AND +until IS NULL AND +kids = 0 AND +grp IS NULL AND +limit_key IS NULL AND +waits = 0 AND +kill = 0
