SELECT n FROM receipt WHERE writer = $1
