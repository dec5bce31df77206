WITH RECURSIVE below (id) AS (
    SELECT ?1
    UNION
    SELECT child FROM edge JOIN below ON edge.parent = below.id
)
SELECT EXISTS (SELECT 1 FROM below WHERE id = ?2)
