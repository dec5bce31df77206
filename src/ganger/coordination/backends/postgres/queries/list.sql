SELECT name, term, number, (
    SELECT coalesce(json_object_agg(key, value), '{}')
    FROM json_each(CASE json_typeof(body) WHEN 'object' THEN body END)
    WHERE key = ANY($2::text[])
)::text AS fields
FROM document
WHERE name >= $1 AND starts_with(name, $1) AND json_typeof(body) = 'object'
ORDER BY name
