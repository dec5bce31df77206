INSERT INTO migration (number, name, checksum, at) VALUES ($1, $2, $3, $4)
