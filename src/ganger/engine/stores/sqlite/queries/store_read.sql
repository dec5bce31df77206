SELECT tag, boot,
       coalesce((SELECT n FROM book WHERE queue = -1 AND name = 'next_task'), 1),
       coalesce((SELECT n FROM book WHERE queue = -1 AND name = 'next_batch'), 1),
       coalesce((SELECT n FROM book WHERE queue = -1 AND name = 'next_event'), 1)
FROM store
