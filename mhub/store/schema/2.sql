-- Version 2: what a hub remembers under a name.

CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL
) WITHOUT ROWID;
