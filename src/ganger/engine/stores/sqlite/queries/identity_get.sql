SELECT id FROM identity WHERE name = ?
