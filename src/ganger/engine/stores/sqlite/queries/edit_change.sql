UPDATE task SET
    spec = CASE WHEN :spec_given THEN :spec ELSE spec END,
    priority = coalesce(:priority, priority),
    due = coalesce(:due, due),
    description = coalesce(:description, description),
    retry = coalesce(:retry, retry),
    timeout = coalesce(:timeout, timeout),
    modified = :wall
WHERE id = :id
