SELECT task.id, task.id, queue, kind, status, priority, fence, holder, until, key, description, grp, batch, any_join, waits, kids,
       due, delay, retry, timeout, touch, ttr, limit_key, parked, avoid, requires, kill, attempts, crashes, reserves, timeouts,
       releases, buries, kicks, percent, info, reason, branch, retry_of, created, modified, started, ended, length(spec)
FROM task INDEXED BY task_unusual CROSS JOIN lane ON lane.id = task.lane
WHERE status = :status AND (status < -2 OR status > 1) AND task.id > :after
  AND (:queue IS NULL OR queue = :queue)
  AND (:kind IS NULL OR kind = :kind)
  AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
  AND (:group IS NULL OR grp = :group)
  AND (:batch IS NULL OR batch = :batch)
  AND (:holder IS NULL OR holder = :holder)
ORDER BY task.id ASC LIMIT :most
