SELECT * FROM seen
WHERE id > $1 AND id <= $2
  AND queue = $3 AND queue > 0
  AND kind = $4
  AND status = ANY($5::integer[])
  AND grp = $6 AND grp > 0
  AND batch = $7
  AND id IN (SELECT task FROM lease WHERE lease.holder = $8)
  AND id = (SELECT task FROM task_key WHERE task_key.key = $9)
  AND id IN (SELECT child FROM edge WHERE edge.parent = $10)
  AND aside = ANY($11::integer[])
ORDER BY id LIMIT $12
