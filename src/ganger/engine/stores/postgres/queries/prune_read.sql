SELECT task.id, task.queue, task.lane, task.status, task.fence, task.kids, task.grp, task.limit_key, task.ended,
       grp.status AS group_status, lane.kind, EXISTS (SELECT 1 FROM follow WHERE parent = task.id) AS follows
FROM task LEFT JOIN task AS grp ON grp.id = task.grp JOIN lane ON lane.id = task.lane
WHERE task.id = ANY($1::bigint[]) ORDER BY task.id
