INSERT INTO store (tag, boot, audit_hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
