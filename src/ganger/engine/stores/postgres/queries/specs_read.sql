SELECT task, value, size FROM data WHERE task = ANY($1::bigint[]) AND key = 'spec' AND size <= $2
