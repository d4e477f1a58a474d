-- Which rows of a spreadsheet a text holds. Of documents stored before, their table is counted when
-- a passage is read.

ALTER TABLE documents ADD COLUMN rows jsonb NOT NULL DEFAULT '[]';
ALTER TABLE chunks ADD COLUMN rows jsonb;
