SELECT (SELECT next_event FROM store), (SELECT version FROM store), (SELECT sum(until) FROM followed),
       EXISTS (SELECT 1 FROM inbox WHERE error IS NULL)
