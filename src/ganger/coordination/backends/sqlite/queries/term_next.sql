UPDATE term SET last = last + 1 RETURNING last
