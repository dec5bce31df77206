CREATE TABLE receipt (
    writer text PRIMARY KEY,
    n bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20)
