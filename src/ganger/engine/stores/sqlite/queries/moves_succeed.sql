UPDATE task SET status = 1, holder = NULL, ended = ?1, modified = ?1, attempts = attempts + 1
WHERE id IN carray(?2)
