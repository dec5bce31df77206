UPDATE task SET
    status = column1, fence = fence + 1, holder = column2, claimed = column3, started = NULL, modified = column3,
    reserves = reserves + 1
FROM (VALUES (?, ?, ?, ?)) WHERE id = column4
