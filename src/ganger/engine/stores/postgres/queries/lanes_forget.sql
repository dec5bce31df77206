DELETE FROM lane WHERE id = ANY($1::integer[]) AND NOT EXISTS (SELECT 1 FROM task WHERE task.lane = lane.id AND task.lane < 0)
RETURNING id
