SELECT is_left($1, $2)
