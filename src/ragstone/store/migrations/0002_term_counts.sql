-- How many terms a chunk has, repetitions included, and how many all chunks of a document have:
-- BM25 weighs a chunk's length against the mean.

ALTER TABLE chunks ADD COLUMN term_count integer NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN term_count integer NOT NULL DEFAULT 0;

UPDATE chunks SET term_count = (
    SELECT coalesce(sum(cardinality(positions)), 0) FROM unnest(terms) AS term (lexeme, positions, weights)
);
UPDATE documents d SET term_count = (
    SELECT coalesce(sum(c.term_count), 0) FROM chunks c WHERE c.document_id = d.document_id
);

ALTER TABLE chunks ALTER COLUMN term_count DROP DEFAULT;
ALTER TABLE documents ALTER COLUMN term_count DROP DEFAULT;
