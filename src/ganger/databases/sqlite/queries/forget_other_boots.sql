DELETE FROM unit WHERE NOT EXISTS (SELECT 1 FROM ownership WHERE boot = ?)
AND lower(hex(client)) NOT IN (SELECT value FROM json_each(?));
