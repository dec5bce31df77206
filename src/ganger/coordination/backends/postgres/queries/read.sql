SELECT term, number, body::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at
FROM (SELECT $1::text AS name) AS asked LEFT JOIN document USING (name)
