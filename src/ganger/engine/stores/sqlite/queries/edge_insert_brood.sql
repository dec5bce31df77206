INSERT INTO edge (parent, child, asks) SELECT ?1, value, ?2 FROM carray(?3)
