SELECT id, status, branch, reason FROM task WHERE id = ANY($1::bigint[])
