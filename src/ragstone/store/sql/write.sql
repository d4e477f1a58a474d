-- name: find_model
SELECT model_id, dimension FROM models WHERE identity = %(identity)s

-- name: insert_model
INSERT INTO models (identity, dimension) VALUES (%(identity)s, %(dimension)s)
ON CONFLICT (identity) DO NOTHING

-- name: lock_source
SELECT pg_advisory_xact_lock(%(key)s)

-- name: insert_base
INSERT INTO bases (base_id, name, model_id) VALUES (%(base_id)s, %(base_id)s, %(model_id)s)
ON CONFLICT DO NOTHING

-- name: base_model
SELECT model_id FROM bases WHERE base_id = %(base_id)s

-- name: base_model_share
SELECT model_id FROM bases WHERE base_id = %(base_id)s FOR SHARE

-- name: base_model_update
SELECT model_id FROM bases WHERE base_id = %(base_id)s FOR NO KEY UPDATE

-- name: bind_base
UPDATE bases SET model_id = %(model_id)s WHERE base_id = %(base_id)s

-- name: foreign_model
SELECT b.name, m.identity
FROM bases b
CROSS JOIN models m
WHERE b.base_id = %(base_id)s
  AND m.model_id <> %(model_id)s
  AND EXISTS (SELECT FROM vectors v WHERE v.model_id = m.model_id AND v.base_id = b.base_id)
ORDER BY m.model_id
LIMIT 1

-- name: stored_revision
SELECT document_id, revision FROM documents
WHERE base_id = %(base_id)s AND uri = %(uri)s
FOR UPDATE

-- name: put_document
INSERT INTO documents AS d (document_id, base_id, uri, title, text, media_type, revision,
                            pages, headings, metadata, warnings, boxes, chunk_count, term_count)
VALUES (%(document_id)s, %(base_id)s, %(uri)s, %(title)s, %(text)s, %(media_type)s, %(revision)s,
        %(pages)s::jsonb, %(headings)s::jsonb, %(metadata)s::jsonb, %(warnings)s::jsonb, %(boxes)s::jsonb,
        %(chunk_count)s, %(term_count)s)
ON CONFLICT (base_id, uri) DO UPDATE
SET document_id = excluded.document_id, title = excluded.title, text = excluded.text,
    media_type = excluded.media_type, revision = excluded.revision, pages = excluded.pages,
    headings = excluded.headings, metadata = excluded.metadata, warnings = excluded.warnings,
    boxes = excluded.boxes, chunk_count = excluded.chunk_count, term_count = excluded.term_count,
    updated_at = now()

-- name: copy_chunks
COPY chunks (chunk_id, document_id, base_id, index, text, start_at, end_at, context, page,
             headings, metadata, parent_start, parent_end, terms, term_count)
FROM STDIN (FORMAT BINARY)

-- name: copy_vectors
COPY vectors (chunk_id, model_id, base_id, embedding_hash, embedding) FROM STDIN (FORMAT BINARY)

-- name: lock_documents
SELECT document_id FROM documents WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id
FOR UPDATE

-- name: delete_vectors
DELETE FROM vectors v USING chunks c
WHERE c.chunk_id = v.chunk_id AND c.document_id = ANY (%(document_ids)s)

-- name: delete_chunks
DELETE FROM chunks WHERE document_id = ANY (%(document_ids)s)

-- name: delete_documents
DELETE FROM documents WHERE document_id = ANY (%(document_ids)s)
