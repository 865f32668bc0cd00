-- Version 3: under which claim of the cluster a session is held, and with which it began anew.

ALTER TABLE sessions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
