INSERT INTO store (tag, boot, next_task, next_batch, next_event) VALUES (?, ?, 1, 1, 1)
