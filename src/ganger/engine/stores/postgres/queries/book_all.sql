SELECT queue, name, n FROM book WHERE n <> 0
