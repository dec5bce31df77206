UPDATE task SET waits = waits + $1 FROM lane
WHERE task.id = $2 AND task.status IN (-4, -7) AND lane.id = task.lane AND lane.kind = 'group'
RETURNING task.id
