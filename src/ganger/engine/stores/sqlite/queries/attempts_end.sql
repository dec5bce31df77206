INSERT INTO attempt (task, fence, holder, claimed, started, ended, outcome, code, reason)
SELECT task.id, fence, coalesce(node.identity, 0), claimed, started, ?1, ?2, ?3, ?4
FROM task LEFT JOIN node ON node.id = task.holder WHERE task.id IN carray(?5)
