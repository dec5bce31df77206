INSERT INTO attempt (task, fence, holder, claimed, started, ended, outcome, code, reason)
SELECT task.id, fence, ?1, claimed, started, ?2, ?3, ?4, ?5 FROM task WHERE task.id IN carray(?6)
