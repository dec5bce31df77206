INSERT INTO attempt (task, fence, holder, claimed, started, ended, outcome, code, reason)
SELECT task.id, task.fence, row.identity, task.claimed, task.started, $1, row.rule, row.code, row.reason
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::integer[], $6::text[]) AS row (id, identity, rule, code, reason)
JOIN task ON task.id = row.id
