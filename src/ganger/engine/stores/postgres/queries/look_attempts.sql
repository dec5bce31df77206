SELECT made.task, made.fence, coalesce(name, '?'), made.claimed, made.started, made.ended, made.outcome, made.code, made.reason
FROM (
    SELECT task, fence, holder, claimed, started, ended, outcome, code, reason FROM attempt WHERE task = $1
    UNION ALL
    SELECT id, fence, last, claimed, started, ended, 'succeed', status, NULL FROM task WHERE id = $1 AND last IS NOT NULL
) AS made LEFT JOIN identity ON identity.id = made.holder
ORDER BY made.fence DESC LIMIT $2
