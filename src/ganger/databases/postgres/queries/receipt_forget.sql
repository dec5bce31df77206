DELETE FROM receipt WHERE writer = ANY($1::text[]) OR at < now() - interval '7 days'
