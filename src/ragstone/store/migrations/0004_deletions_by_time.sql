-- Whoever keeps something of documents elsewhere asks again and again what was deleted since.

CREATE INDEX deletions_time ON deletions (deleted_at);
