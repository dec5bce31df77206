WITH RECURSIVE below (id) AS (
    SELECT ?1
    UNION
    SELECT child FROM edge JOIN below ON edge.parent = below.id
    UNION
    SELECT grp FROM task JOIN below ON task.id = below.id WHERE grp IS NOT NULL
)
SELECT EXISTS (SELECT 1 FROM below WHERE id = ?2)
