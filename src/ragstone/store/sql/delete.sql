-- name: lock_documents
SELECT document_id FROM documents WHERE document_id = ANY (%(ids)s)
ORDER BY document_id
FOR UPDATE

-- name: chunks_of_documents
-- Of every generation; a row for each document.
SELECT d.document_id, ARRAY(SELECT c.chunk_id FROM chunks c WHERE c.document_id = d.document_id) AS chunk_ids
FROM unnest(%(ids)s::text[]) AS d (document_id)

-- name: delete_rows
DELETE FROM {table} WHERE {column} = ANY (%(ids)s) RETURNING {column}

-- name: count_rows
SELECT count(*) FROM {table} WHERE {column} = ANY (%(ids)s)

-- name: count_untold
SELECT count(*) FROM outbox WHERE applied_at IS NULL AND chunk_id = ANY (%(ids)s)

-- name: record_deletions
INSERT INTO deletions (document_id, chunk_ids, rows)
SELECT r.document_id, ARRAY(SELECT jsonb_array_elements_text(r.chunk_ids)), r.rows
FROM jsonb_to_recordset(%(records)s::jsonb) AS r (document_id text, chunk_ids jsonb, rows jsonb)
ON CONFLICT (document_id) DO UPDATE
SET chunk_ids = excluded.chunk_ids, rows = excluded.rows, deleted_at = now()

-- name: deletion
SELECT chunk_ids, rows, deleted_at FROM deletions WHERE document_id = %(document_id)s
