-- How many tasks the nodes of this name hold at once, whatever they say of themselves; null is as they say.
ALTER TABLE identity ADD COLUMN most integer;
