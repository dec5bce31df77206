INSERT INTO followed AS known (task, until) SELECT row.task, row.until FROM unnest($1::bigint[], $2::bigint[]) AS row (task, until)
ON CONFLICT (task) DO UPDATE SET until = excluded.until
RETURNING task, xmax = 0 AS fresh
