-- name: find_model
SELECT model_id, dimension FROM models WHERE identity = %(identity)s

-- name: insert_model
INSERT INTO models (identity, dimension) VALUES (%(identity)s, %(dimension)s)
ON CONFLICT (identity) DO NOTHING

-- name: lock_source
SELECT pg_advisory_xact_lock(%(key)s)

-- name: insert_base
INSERT INTO bases (base_id, name) VALUES (%(base_id)s, %(base_id)s)
ON CONFLICT DO NOTHING

-- name: lock_base_shared
SELECT base_id FROM bases WHERE base_id = %(base_id)s FOR SHARE

-- name: lock_base
-- Alone among writers; a document or a generation may still refer to the base.
SELECT base_id FROM bases WHERE base_id = %(base_id)s FOR NO KEY UPDATE

-- name: active_generation
SELECT g.generation_id, g.model_id, m.identity, g.settings, b.name,
       EXISTS (SELECT FROM generation_documents h
               WHERE h.generation_id = g.generation_id AND h.chunk_count > 0) AS filled
FROM generations g JOIN bases b USING (base_id) JOIN models m USING (model_id)
WHERE g.base_id = %(base_id)s AND g.state = 'active'

-- name: insert_generation
INSERT INTO generations (base_id, model_id, settings, state)
VALUES (%(base_id)s, %(model_id)s, %(settings)s, %(state)s)
RETURNING generation_id

-- name: change_generation
UPDATE generations SET model_id = %(model_id)s, settings = %(settings)s
WHERE generation_id = %(generation_id)s

-- name: stored_revision
SELECT document_id, revision FROM documents
WHERE base_id = %(base_id)s AND uri = %(uri)s
FOR UPDATE

-- name: put_document
INSERT INTO documents AS d (document_id, base_id, uri, title, text, media_type, revision,
                            pages, headings, metadata, warnings, boxes, rows)
VALUES (%(document_id)s, %(base_id)s, %(uri)s, %(title)s, %(text)s, %(media_type)s, %(revision)s,
        %(pages)s::jsonb, %(headings)s::jsonb, %(metadata)s::jsonb, %(warnings)s::jsonb, %(boxes)s::jsonb,
        %(rows)s::jsonb)
ON CONFLICT (base_id, uri) DO UPDATE
SET document_id = excluded.document_id, title = excluded.title, text = excluded.text,
    media_type = excluded.media_type, revision = excluded.revision, pages = excluded.pages,
    headings = excluded.headings, metadata = excluded.metadata, warnings = excluded.warnings,
    boxes = excluded.boxes, rows = excluded.rows, updated_at = now()

-- name: put_generation_document
INSERT INTO generation_documents (generation_id, document_id, chunk_count, term_count)
VALUES (%(generation_id)s, %(document_id)s, %(chunk_count)s, %(term_count)s)

-- name: copy_chunks
COPY chunks (generation_id, chunk_id, document_id, base_id, index, text, start_at, end_at, context, page,
             headings, metadata, parent_start, parent_end, terms, term_count, rows)
FROM STDIN (FORMAT BINARY)

-- name: copy_vectors
COPY vectors (generation_id, chunk_id, model_id, base_id, embedding_hash, embedding, tokens)
FROM STDIN (FORMAT BINARY)

-- name: insert_chunk
INSERT INTO chunks (generation_id, chunk_id, document_id, base_id, index, text, start_at, end_at, context, page,
                    headings, metadata, parent_start, parent_end, terms, term_count, rows)
VALUES (%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)

-- name: insert_vector
INSERT INTO vectors (generation_id, chunk_id, model_id, base_id, embedding_hash, embedding, tokens)
VALUES (%b, %b, %b, %b, %b, %b, %b)

-- name: take_out
-- The document's chunks and vectors of every generation go with it.
DELETE FROM generation_documents WHERE document_id = ANY (%(document_ids)s)
