DELETE FROM node WHERE cleared = 1 AND seen < ? AND state IN ('lost', 'left')
