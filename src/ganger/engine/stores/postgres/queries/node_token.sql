SELECT token FROM node WHERE id = $1
