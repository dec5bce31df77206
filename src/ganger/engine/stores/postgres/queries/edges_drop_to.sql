DELETE FROM edge WHERE child = ANY($1::bigint[]) AND child > 0 RETURNING parent
