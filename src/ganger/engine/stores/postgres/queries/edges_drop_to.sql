DELETE FROM edge WHERE child = ANY($1::bigint[]) RETURNING parent
