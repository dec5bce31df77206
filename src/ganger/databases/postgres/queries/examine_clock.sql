SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall,
    current_setting('server_version') AS version,
    current_setting('autovacuum') = 'on' AS autovacuum,
    current_setting('fsync') = 'on' AS fsync
