INSERT INTO unit (client, slot, seq, receipt, moment, wall) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (client, slot) DO UPDATE SET
    seq = excluded.seq,
    receipt = excluded.receipt,
    moment = excluded.moment,
    wall = excluded.wall;
