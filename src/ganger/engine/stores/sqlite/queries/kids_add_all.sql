UPDATE task SET kids = kids + ? WHERE id IN carray(?)
