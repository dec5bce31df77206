INSERT INTO store (tag, boot) VALUES (?, ?)
