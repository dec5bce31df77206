UPDATE store SET next_task = ?, next_batch = ?, next_event = ?
