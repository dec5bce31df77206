WITH books AS (DELETE FROM book WHERE queue = $1), batches AS (DELETE FROM batch WHERE queue = $1)
DELETE FROM queue WHERE id = $1
