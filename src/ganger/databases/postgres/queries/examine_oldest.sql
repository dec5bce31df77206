SELECT pid, coalesce(application_name, '') AS program, extract(epoch FROM clock_timestamp() - xact_start)::bigint AS age
FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY xact_start
LIMIT 1
