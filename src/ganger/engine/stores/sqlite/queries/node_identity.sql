SELECT identity FROM node WHERE id = ?
