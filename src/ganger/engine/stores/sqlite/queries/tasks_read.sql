SELECT task.id, task.id, queue, kind, status, priority, fence, holder, until, key, description, grp, batch, any_join, waits, kids,
       due, delay, retry, timeout, touch, ttr, limit_key, parked, avoid, requires, kill, attempts, crashes, reserves, timeouts,
       releases, buries, kicks, percent, info, reason, branch, retry_of, created, modified, started, ended, length(spec)
FROM task JOIN lane ON lane.id = task.lane
WHERE task.id IN carray(?)
