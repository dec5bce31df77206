SELECT substr(spec, ? + 1, ?), length(spec) FROM task WHERE id = ? AND spec IS NOT NULL
