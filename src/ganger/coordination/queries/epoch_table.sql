CREATE TABLE IF NOT EXISTS ganger_epoch (
    lock varchar(400) PRIMARY KEY,
    term bigint NOT NULL,
    number bigint NOT NULL
)
