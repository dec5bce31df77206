SELECT holder, count(*) FROM task WHERE holder IN carray(?) AND holder IS NOT NULL GROUP BY holder
