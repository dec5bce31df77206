UPDATE task SET spec = NULL WHERE id = ANY($1::bigint[])
