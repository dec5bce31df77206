SELECT id FROM task WHERE grp = ANY($1::bigint[]) AND grp > 0 AND ended < $2 LIMIT $3
