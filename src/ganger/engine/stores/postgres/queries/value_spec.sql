SELECT substr(spec, ($1 + 1)::integer, $2), length(spec) FROM task WHERE id = $3 AND spec IS NOT NULL
