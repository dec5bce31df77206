SELECT number, name, checksum FROM migration ORDER BY number;
