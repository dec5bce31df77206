UPDATE task SET
    status = ?1, fence = fence + 1, holder = ?2, claimed = ?3, started = NULL, modified = ?3, reserves = reserves + 1
WHERE id IN carray(?4)
