SELECT task.id, task.queue, task.lane, task.status, task.fence, task.holder, task.until, task.kids, task.grp, task.limit_key,
       task.waits, task.kill, task.ended, grp.status, lane.kind,
       EXISTS (SELECT 1 FROM follow WHERE parent = task.id)
FROM task LEFT JOIN task AS grp ON grp.id = task.grp JOIN lane ON lane.id = task.lane
WHERE task.id IN carray(?1)
