SELECT receipt FROM unit WHERE client = ? AND slot = ? AND seq = ?;
