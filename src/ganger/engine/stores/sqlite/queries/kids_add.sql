UPDATE task SET kids = kids + column1 FROM (VALUES (?, ?)) WHERE id = column2
