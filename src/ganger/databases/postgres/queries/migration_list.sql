SELECT number, checksum FROM migration
