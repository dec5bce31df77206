UPDATE task SET waits = waits + ? WHERE id = ? AND status = -4
    AND lane IN (SELECT id FROM lane WHERE kind = 'group')
RETURNING id
