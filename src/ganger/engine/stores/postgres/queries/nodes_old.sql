SELECT EXISTS (SELECT 1 FROM node WHERE cleared AND seen < $1 AND state IN ('lost', 'left'))
