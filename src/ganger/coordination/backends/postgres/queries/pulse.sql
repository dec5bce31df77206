SELECT last_value FROM change
