SELECT task, size FROM data WHERE task IN carray(?) AND key = 'spec'
