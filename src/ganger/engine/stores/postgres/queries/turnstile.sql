UPDATE store SET next_task = next_task + $1, next_batch = next_batch + $2
RETURNING next_task - $1 AS task, next_batch - $2 AS batch, audit_position, audit_hash
