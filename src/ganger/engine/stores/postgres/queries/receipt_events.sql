SELECT event.at, event.fact, event.entries, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall
FROM receipt JOIN event ON event.position >= receipt.since AND event.position < receipt.until
WHERE receipt.writer = $1 ORDER BY event.position
