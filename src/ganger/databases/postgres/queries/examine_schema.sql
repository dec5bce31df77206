SELECT coalesce(max(number), 0) AS newest FROM migration
