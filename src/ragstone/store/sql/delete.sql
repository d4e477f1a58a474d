-- name: lock_documents
SELECT document_id FROM documents WHERE document_id = ANY (%(ids)s)
ORDER BY document_id
FOR UPDATE

-- name: chunk_ids
-- Of every generation.
SELECT chunk_id FROM chunks WHERE document_id = %(document_id)s

-- name: delete_rows
DELETE FROM {table} WHERE {column} = ANY (%(ids)s)

-- name: count_rows
SELECT count(*) FROM {table} WHERE {column} = ANY (%(ids)s)

-- name: count_untold
SELECT count(*) FROM outbox WHERE applied_at IS NULL AND chunk_id = ANY (%(ids)s)

-- name: record_deletion
INSERT INTO deletions (document_id, chunk_ids, rows)
VALUES (%(document_id)s, %(chunk_ids)s, %(rows)s::jsonb)
ON CONFLICT (document_id) DO UPDATE
SET chunk_ids = excluded.chunk_ids, rows = excluded.rows, deleted_at = now()

-- name: deletion
SELECT chunk_ids, rows, deleted_at FROM deletions WHERE document_id = %(document_id)s
