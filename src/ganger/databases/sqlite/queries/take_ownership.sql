INSERT INTO ownership (id, format, epoch, protocol, minimum, boot, wall)
VALUES (1, :format, 1, :protocol, :minimum, :boot, :wall)
ON CONFLICT (id) DO UPDATE SET
    epoch = epoch + 1,
    protocol = max(protocol, excluded.protocol),
    minimum = max(minimum, excluded.minimum),
    boot = excluded.boot,
    wall = excluded.wall;
