SELECT queue, fact, n FROM counter
