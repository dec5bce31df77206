WITH replaced AS (
    UPDATE document SET number = number + 1, body = $2::json
    WHERE name = $1 AND term = $5 AND number = $6
    RETURNING term, number
)
SELECT term, number, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at, seal($3, $4, term, number) FROM replaced
