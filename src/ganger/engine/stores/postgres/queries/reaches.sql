WITH RECURSIVE below (id) AS (
    SELECT $1::bigint
    UNION
    SELECT next.id FROM below, LATERAL (
        SELECT child FROM edge WHERE edge.parent = below.id
        UNION ALL
        SELECT grp FROM task WHERE task.id = below.id AND grp IS NOT NULL
    ) AS next (id)
)
SELECT EXISTS (SELECT 1 FROM below WHERE id = $2)
