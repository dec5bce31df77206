SELECT tag, boot, next_task, next_batch, next_event FROM store
