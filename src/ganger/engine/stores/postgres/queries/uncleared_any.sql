SELECT EXISTS (SELECT 1 FROM node WHERE NOT cleared AND state IN ('lost', 'left'))
