WITH removed AS (
    DELETE FROM document WHERE name = $1 AND term = $4 AND number = $5 RETURNING term, number
)
SELECT term, number, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at, seal($2, $3, term, number) FROM removed
