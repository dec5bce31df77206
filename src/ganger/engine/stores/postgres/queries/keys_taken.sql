SELECT key, task FROM task_key WHERE key = ANY($1::text[])
