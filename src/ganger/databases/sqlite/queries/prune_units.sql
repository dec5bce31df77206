DELETE FROM unit WHERE wall < ? AND moment < ?
AND lower(hex(client)) NOT IN (SELECT value FROM json_each(?));
