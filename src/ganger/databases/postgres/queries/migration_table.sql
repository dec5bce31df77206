CREATE TABLE migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    at bigint NOT NULL
)
