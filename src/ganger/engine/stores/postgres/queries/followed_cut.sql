DELETE FROM followed WHERE task IN (SELECT task FROM followed ORDER BY until DESC, task DESC OFFSET $1)
