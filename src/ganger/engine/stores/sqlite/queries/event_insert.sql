INSERT INTO event (position, at, fact, queue, holder, entries, subject) VALUES (?, ?, ?, ?, ?, ?, ?)
