-- name: keep_documents
-- Those that are there, and stay until the transaction ends.
SELECT document_id FROM documents WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id
FOR KEY SHARE

-- name: lock_messages_of
SELECT message_id, content, mode, answered, citations, sources
FROM messages
WHERE source_documents && %(document_ids)s::text[]
ORDER BY message_id
FOR UPDATE

-- name: redact_message
UPDATE messages
SET content = %(content)s, citations = %(citations)s, sources = %(sources)s, audit = '{}',
    source_documents = ARRAY(SELECT document_id FROM unnest(source_documents) AS document_id
                             WHERE document_id <> ALL (%(document_ids)s))
WHERE message_id = %(message_id)s

-- name: deleted_in_answers
-- Deletions, since a moment, of documents that stored answers still come from. A deletion is
-- dated by the beginning of its transaction, which may have ended ten minutes later.
SELECT d.document_id
FROM deletions d
WHERE (%(since)s::timestamptz IS NULL OR d.deleted_at >= %(since)s::timestamptz - interval '10 minutes')
  AND EXISTS (SELECT FROM messages m WHERE m.source_documents && ARRAY[d.document_id])

-- name: server_time
SELECT now()
