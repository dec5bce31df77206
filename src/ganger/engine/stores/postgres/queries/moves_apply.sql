UPDATE task SET
    status = row.status,
    lane = coalesce(row.lane, task.lane),
    priority = coalesce(row.priority, task.priority),
    due = CASE WHEN row.status = -8 THEN coalesce(row.due, task.due, $1) ELSE task.due END,
    parked = row.status = -2 AND task.limit_key IS NOT NULL,
    fence = task.fence + row.raised,
    holder = NULL,
    until = NULL,
    term = NULL,
    kill = false,
    started = CASE WHEN row.final THEN task.started END,
    ended = CASE WHEN row.final THEN $1 END,
    reason = coalesce(row.reason, task.reason),
    branch = row.branch,
    modified = $1,
    attempts = task.attempts + row.attempts,
    crashes = task.crashes + row.crashes,
    timeouts = task.timeouts + row.timeouts,
    releases = task.releases + row.releases,
    buries = task.buries + row.buries,
    kicks = task.kicks + row.kicks
FROM unnest(
    $2::bigint[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::integer[], $8::boolean[], $9::text[],
    $10::boolean[], $11::integer[], $12::integer[], $13::integer[], $14::integer[], $15::integer[], $16::integer[]
) AS row (id, status, lane, priority, due, raised, final, reason, branch, attempts, crashes, timeouts, releases, buries, kicks)
WHERE task.id = row.id
