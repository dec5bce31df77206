SELECT relname AS name, n_live_tup AS live, n_dead_tup AS dead, pg_total_relation_size(relid) AS size
FROM pg_stat_user_tables
WHERE schemaname = $1
ORDER BY size DESC
