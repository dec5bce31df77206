DELETE FROM receipt WHERE writer = $1 AND n <> $2
