SELECT coalesce(max(next_event), 0) FROM store
