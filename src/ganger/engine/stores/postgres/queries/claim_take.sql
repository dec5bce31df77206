UPDATE task SET
    status = $1, fence = fence + 1, holder = $2, claimed = $3, started = NULL, modified = $3, reserves = reserves + 1,
    term = CASE WHEN touch THEN coalesce(ttr, $4) END, until = CASE WHEN touch THEN $5 + coalesce(ttr, $4) END
WHERE id = ANY($6::bigint[])
