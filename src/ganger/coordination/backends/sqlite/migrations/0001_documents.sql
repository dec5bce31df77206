CREATE TABLE document (
    name TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The number of the last document that was made: none is given twice.
CREATE TABLE term (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), last INTEGER NOT NULL) STRICT;

INSERT INTO term (only_row, last) VALUES (1, 0);
