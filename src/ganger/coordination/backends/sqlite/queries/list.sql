SELECT name, term, number, (
    SELECT json_group_object(key, json(body -> fullkey))
    FROM json_each(body)
    WHERE key IN (SELECT value FROM json_each(?3))
)
FROM document
WHERE name >= ?1 AND name < ?2 AND json_valid(body)
ORDER BY name
