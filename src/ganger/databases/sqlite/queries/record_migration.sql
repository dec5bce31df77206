INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?);
