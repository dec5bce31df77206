-- Tasks that applications wrote in transactions of their own, until a step makes tasks of them. One that can never be a
-- task stays, with the reason.
CREATE TABLE inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    body text NOT NULL,
    error text,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX inbox_open ON inbox (number) WHERE error IS NULL;
