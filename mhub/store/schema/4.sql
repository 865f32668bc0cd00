-- Version 4: who the client of a session is, as Principal.to_text() has it, and not the user name
-- alone, which nobody had checked.

ALTER TABLE sessions RENAME COLUMN username TO principal;
UPDATE sessions SET principal = json_object('claimed_user', principal) WHERE principal != '';
