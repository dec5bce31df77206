UPDATE task SET until = ?1 + coalesce(ttr, ?2) WHERE id IN carray(?3)
