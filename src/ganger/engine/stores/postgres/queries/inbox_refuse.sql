UPDATE inbox SET error = $1 WHERE number = $2
