UPDATE task SET
    spec = CASE WHEN $1 THEN $2 ELSE spec END,
    priority = coalesce($3, priority),
    due = coalesce($4, due),
    description = coalesce($5, description),
    retry = coalesce($6, retry),
    timeout = coalesce($7, timeout),
    modified = $8
WHERE id = $9
