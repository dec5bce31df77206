UPDATE task SET
    created = row.created, started = row.started, ended = row.ended, modified = row.ended, reason = row.reason,
    branch = row.branch, attempts = row.attempts, crashes = row.crashes
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::boolean[], $7::integer[], $8::integer[]
) AS row (id, created, ended, started, reason, branch, attempts, crashes)
WHERE task.id = row.id
