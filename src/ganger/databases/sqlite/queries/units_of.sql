SELECT slot, seq FROM unit WHERE client = ?;
