INSERT INTO edge (parent, child, asks) SELECT value, ?1, ?2 FROM carray(?3)
