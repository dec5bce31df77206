SELECT coalesce(substr(spec, ? + 1, ?), x''), length(spec) FROM task WHERE id = ? AND spec IS NOT NULL
