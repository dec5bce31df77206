INSERT INTO store (tag, boot, next_task, next_batch) VALUES (?, ?, 1, 1)
