UPDATE task SET waits = waits + ? WHERE id = ? AND status IN (-4, -7)
    AND lane IN (SELECT id FROM lane WHERE kind = 'group')
RETURNING id
