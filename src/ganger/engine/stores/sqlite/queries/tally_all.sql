SELECT queue, status, n FROM tally
