WITH made AS (
    INSERT INTO document (name, term, number, body) VALUES ($1, nextval('term'), 1, $2::json)
    ON CONFLICT (name) DO NOTHING
    RETURNING term, number
)
SELECT term, number, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at, seal($3, $4, term, number) FROM made
