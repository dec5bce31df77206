SELECT coalesce(max(next_event), 0), EXISTS (SELECT 1 FROM inbox WHERE error IS NULL) FROM store
