SELECT token FROM node WHERE id = ?
