WITH RECURSIVE
queues (id) AS (SELECT id FROM queue),
lanes (queue, lane) AS (
    SELECT id, (SELECT min(lane) FROM task WHERE status = -2 AND parked = 0 AND queue = queues.id) FROM queues
    UNION ALL
    SELECT queue, (SELECT min(t.lane) FROM task AS t
                   WHERE t.status = -2 AND t.parked = 0 AND t.queue = lanes.queue AND t.lane > lanes.lane)
    FROM lanes WHERE lane IS NOT NULL
)
SELECT queue, lane FROM lanes WHERE lane IS NOT NULL
