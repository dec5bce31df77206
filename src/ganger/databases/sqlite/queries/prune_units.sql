DELETE FROM unit WHERE wall < ? AND moment < ?;
