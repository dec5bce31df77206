SELECT id FROM identity WHERE name = $1
