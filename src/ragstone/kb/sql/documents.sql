-- name: list_documents
SELECT d.document_id, b.name AS base, d.uri, d.title, f.name, d.media_type, h.chunk_count AS chunks,
       length(d.text) AS characters, jsonb_array_length(d.pages) AS pages, d.warnings,
       d.created_at, d.updated_at
FROM documents d
JOIN bases b USING (base_id)
JOIN generations g ON g.base_id = d.base_id AND g.state = 'active'
JOIN generation_documents h USING (generation_id, document_id)
LEFT JOIN files f USING (document_id)
WHERE %(base_id)s::text IS NULL OR d.base_id = %(base_id)s
ORDER BY b.name, d.uri

-- name: find_documents
SELECT d.document_id, b.name AS base, d.uri, d.title, f.name, d.media_type, h.chunk_count AS chunks,
       length(d.text) AS characters, jsonb_array_length(d.pages) AS pages, d.warnings,
       d.created_at, d.updated_at
FROM documents d
JOIN bases b USING (base_id)
JOIN generations g ON g.base_id = d.base_id AND g.state = 'active'
JOIN generation_documents h USING (generation_id, document_id)
LEFT JOIN files f USING (document_id)
WHERE (%(base_id)s::text IS NULL OR d.base_id = %(base_id)s)
  AND (d.document_id = %(reference)s
       OR (length(%(reference)s) >= 6 AND starts_with(d.document_id, %(reference)s))
       OR d.uri = ANY (%(uris)s)
       OR right(d.uri, length(%(tail)s)) = %(tail)s
       OR f.name = %(reference)s
       OR d.title = %(reference)s)
ORDER BY b.name, d.uri

-- name: document_chunks
SELECT c.chunk_id
FROM chunks c JOIN generations g USING (generation_id)
WHERE c.document_id = %(document_id)s AND g.state = 'active'
ORDER BY c.index

-- name: deleted_documents
-- Deletions on record whose id begins so; two are enough to say that it is not one.
SELECT DISTINCT document_id FROM deletions WHERE starts_with(document_id, %(beginning)s) LIMIT 2
