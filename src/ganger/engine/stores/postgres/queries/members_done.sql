SELECT id FROM task WHERE grp = ANY($1::bigint[]) AND ended < $2 LIMIT $3
