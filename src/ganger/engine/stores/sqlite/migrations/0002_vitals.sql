-- How a node is, as it told with its last beat: a list in JSON.
ALTER TABLE node ADD COLUMN vitals TEXT;
