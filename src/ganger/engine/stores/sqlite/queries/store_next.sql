UPDATE store SET next_task = ?, next_batch = ?
