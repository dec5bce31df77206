SELECT epoch FROM ownership WHERE id = 1;
