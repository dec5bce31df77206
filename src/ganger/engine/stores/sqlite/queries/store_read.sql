SELECT tag, boot, next_task, next_batch FROM store
