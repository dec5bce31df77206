WITH turned AS (UPDATE ready SET rank = -rank WHERE queue = $1)
UPDATE task SET rank = -rank WHERE queue = $1 AND queue > 0
