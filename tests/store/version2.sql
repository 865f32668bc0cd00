-- A file as version 2 left it.  This never changes: each later version has to open it.

PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1835562338;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;

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

CREATE TABLE messages (
    mid INTEGER PRIMARY KEY,
    refs INTEGER NOT NULL,
    body BLOB NOT NULL
);

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

CREATE TABLE counters (
    last_sid INTEGER NOT NULL,
    last_mid INTEGER NOT NULL,
    commits INTEGER NOT NULL
);
CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO counters VALUES (12, 40, 1234);
INSERT INTO sessions VALUES
    (7, 'old', 'u', 'l', 'm/', 300, 1000100.0, 5, 1000000.5,
     x'0100ffffffffffffffffffffffff000000000000000001000000000077627965');
INSERT INTO subscriptions VALUES (7, '$share/g/a', 2, 1, 1, 3);
INSERT INTO messages VALUES
    (31, 1, x'0100ffffffffffffffffffffffff00000000000000000100000000007474776f');
INSERT INTO deliveries VALUES (7, 21, 31, 4, 2, 1, 5, 1, x'', '$share/g/a', x'');
INSERT INTO deliveries VALUES
    (7, 22, 0, 4, 1, 0, 0, 0, x'0b03', '',
     x'0100ffffffffffffffffffffffff0000000000000000010000000000746f776e');
INSERT INTO incoming VALUES (7, 9);
INSERT INTO retained VALUES
    ('r', 0.0, x'0100ffffffffffffffffffffffff0000000000000000010000000000726b657074');
INSERT INTO notes VALUES ('boot', '3');
