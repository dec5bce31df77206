INSERT INTO output (task, fence, stream, start, body, blob, size) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (task, fence, stream, start) DO NOTHING RETURNING number
