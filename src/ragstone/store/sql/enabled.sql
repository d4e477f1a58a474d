-- name: enabled
-- In a search, beside every other condition.
{table}.enabled

-- name: lock_documents_of_chunks
SELECT FROM documents
WHERE document_id IN (SELECT document_id FROM chunks WHERE chunk_id = ANY (%(chunk_ids)s))
ORDER BY document_id
FOR UPDATE

-- name: passages_of_chunks
SELECT c.document_id, v.embedding_hash
FROM chunks c JOIN vectors v USING (chunk_id)
WHERE c.chunk_id = ANY (%(chunk_ids)s)

-- name: disabled_of_source
-- What a new version of a document takes over: the passages, by their text.
SELECT DISTINCT v.embedding_hash
FROM documents d JOIN chunks c USING (document_id) JOIN vectors v USING (chunk_id)
WHERE d.base_id = %(base_id)s AND d.uri = %(uri)s AND NOT c.enabled

-- name: set_enabled
-- The same passage of the same document, in every generation.
WITH named AS (
    SELECT document_id, embedding_hash
    FROM unnest(%(document_ids)s::text[], %(hashes)s::text[]) AS n (document_id, embedding_hash)
), same AS MATERIALIZED (
    SELECT DISTINCT c.chunk_id
    FROM named n JOIN chunks c USING (document_id)
    JOIN vectors v ON v.chunk_id = c.chunk_id AND v.embedding_hash = n.embedding_hash
    WHERE c.enabled <> %(enabled)s
), changed AS (
    UPDATE vectors v SET enabled = %(enabled)s FROM same WHERE v.chunk_id = same.chunk_id
)
UPDATE chunks c SET enabled = %(enabled)s FROM same WHERE c.chunk_id = same.chunk_id
