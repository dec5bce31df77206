INSERT INTO output (task, fence, stream, start, body, blob, size) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (task, fence, stream, start) DO NOTHING
