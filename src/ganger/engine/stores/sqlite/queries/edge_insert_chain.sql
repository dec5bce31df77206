INSERT INTO edge (parent, child, asks) SELECT value, value + ?1, ?2 FROM carray(?3)
