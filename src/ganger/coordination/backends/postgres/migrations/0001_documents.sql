CREATE TABLE document (
    name text COLLATE "C" PRIMARY KEY,
    term bigint NOT NULL,
    number bigint NOT NULL,
    body json NOT NULL
) WITH (fillfactor = 50);

-- Numbers of documents that were made: none is given twice.
CREATE SEQUENCE term;

-- Another number after whatever somebody may wait for.
CREATE SEQUENCE change;

-- What a write has given, for whoever did not hear it.
ALTER TABLE receipt ADD COLUMN term bigint, ADD COLUMN number bigint;

-- Leave the receipt of a write. GA001: its row is gone, so the write must not be stored.
CREATE FUNCTION seal(who text, written bigint, given_term bigint, given_number bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE receipt SET n = written, at = now(), term = given_term, number = given_number WHERE writer = who;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the receipt of writer % is gone', who USING ERRCODE = 'GA001';
    END IF;
    RETURN nextval('change');
END
$$;
