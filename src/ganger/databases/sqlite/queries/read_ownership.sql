SELECT format, minimum FROM ownership WHERE id = 1;
