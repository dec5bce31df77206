UPDATE task SET status = 1, holder = NULL, ended = column4, modified = column4, attempts = attempts + 1
FROM (VALUES (?, ?, ?, ?, ?))
WHERE id = column1 AND +fence = column2 AND +holder = column3 AND +queue = column5 AND +status = -1 AND +lane > 0
    AND +until IS NULL AND +kids = 0 AND +grp IS NULL AND +limit_key IS NULL AND +waits = 0 AND +kill = 0
