SELECT to_regclass('migration') IS NOT NULL
