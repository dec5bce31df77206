WITH line AS (
    INSERT INTO audit (position, at, who, action, detail, hash) VALUES ($1, $2, $3, $4, $5, $6)
)
UPDATE store SET audit_position = $1, audit_hash = $6
