SELECT tag, boot, version, next_event FROM store
