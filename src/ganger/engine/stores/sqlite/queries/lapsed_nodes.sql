SELECT id FROM node WHERE cleared = 0 AND state IN ('lost', 'left') ORDER BY id LIMIT 100
