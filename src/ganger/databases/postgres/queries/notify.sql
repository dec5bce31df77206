SELECT pg_notify($1, $2 || ' ' || topic) FROM unnest($3::text[]) AS told (topic)
