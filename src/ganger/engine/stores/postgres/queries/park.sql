UPDATE task SET parked = $1 WHERE id = ANY($2::bigint[]) AND parked <> $1
