SELECT task, fence, coalesce(name, '?'), claimed, started, ended, outcome, code, reason
FROM attempt LEFT JOIN identity ON identity.id = attempt.holder
WHERE task = ? ORDER BY fence DESC LIMIT ?
