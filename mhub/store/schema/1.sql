-- Version 1.  Columns are as in mhub/core/records.py; times are seconds of the Unix epoch.

CREATE TABLE sessions (
    sid INTEGER PRIMARY KEY,
    client_id TEXT NOT NULL,
    username TEXT NOT NULL,
    listener TEXT NOT NULL,
    mount TEXT NOT NULL,
    expiry_s INTEGER NOT NULL,
    ends_at REAL NOT NULL,
    will_delay_s INTEGER NOT NULL,
    will_at REAL NOT NULL,
    will BLOB NOT NULL
);

CREATE TABLE subscriptions (
    sid INTEGER NOT NULL,
    name TEXT NOT NULL,
    qos INTEGER NOT NULL,
    no_local INTEGER NOT NULL,
    retain_as_published INTEGER NOT NULL,
    identifier INTEGER NOT NULL,
    PRIMARY KEY (sid, name)
) WITHOUT ROWID;

-- A message that several deliveries share.
CREATE TABLE messages (
    mid INTEGER PRIMARY KEY,
    refs INTEGER NOT NULL,
    body BLOB NOT NULL
);

-- In the order in which a queue is read.  What is in flight (pid is not 0) is near the head of its
-- line, so it is found without an index, which each delivery would have to pay for.
CREATE TABLE deliveries (
    sid INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    mid INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    qos INTEGER NOT NULL,
    retain INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    released INTEGER NOT NULL,
    ids BLOB NOT NULL,
    share TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (sid, seq)
) WITHOUT ROWID;

CREATE TABLE incoming (
    sid INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    PRIMARY KEY (sid, pid)
) WITHOUT ROWID;

CREATE TABLE retained (
    topic TEXT PRIMARY KEY,
    expires_at REAL NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;

-- One row.  The highest numbers ever used, and how many batches were applied.
CREATE TABLE counters (
    last_sid INTEGER NOT NULL,
    last_mid INTEGER NOT NULL,
    commits INTEGER NOT NULL
);
INSERT INTO counters VALUES (0, 0, 0);
