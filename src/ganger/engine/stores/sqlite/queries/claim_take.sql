UPDATE task SET
    status = ?1, fence = fence + 1, holder = ?2, until = CASE WHEN touch THEN ?3 + coalesce(ttr, ?4) END,
    claimed = ?5, started = NULL, modified = ?5, reserves = reserves + 1
WHERE id IN carray(?6)
