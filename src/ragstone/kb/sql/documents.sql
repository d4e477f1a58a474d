-- name: list_documents
SELECT d.document_id, b.name AS base, d.uri, d.title, d.media_type, d.chunk_count AS chunks,
       length(d.text) AS characters, jsonb_array_length(d.pages) AS pages, d.warnings,
       d.created_at, d.updated_at
FROM documents d
JOIN bases b USING (base_id)
WHERE %(base_id)s::text IS NULL OR d.base_id = %(base_id)s
ORDER BY b.name, d.uri

-- name: find_documents
SELECT d.document_id, b.name AS base, d.uri, d.title, d.media_type, d.chunk_count AS chunks,
       length(d.text) AS characters, jsonb_array_length(d.pages) AS pages, d.warnings,
       d.created_at, d.updated_at
FROM documents d
JOIN bases b USING (base_id)
WHERE (%(base_id)s::text IS NULL OR d.base_id = %(base_id)s)
  AND (d.document_id = %(reference)s
       OR (length(%(reference)s) >= 6 AND starts_with(d.document_id, %(reference)s))
       OR d.uri = ANY (%(uris)s)
       OR right(d.uri, length(%(tail)s)) = %(tail)s
       OR d.title = %(reference)s)
ORDER BY b.name, d.uri

-- name: document_chunks
SELECT chunk_id FROM chunks WHERE document_id = %(document_id)s ORDER BY index

-- name: document_members
SELECT m.document_id
FROM documents d
JOIN documents m ON m.base_id = d.base_id AND starts_with(m.uri, d.uri || '!/')
WHERE d.document_id = ANY (%(document_ids)s)
