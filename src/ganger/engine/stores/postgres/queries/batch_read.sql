SELECT number, fill FROM batch WHERE queue = $1
