-- name: keep_documents
-- Those that are there, and stay until the transaction ends.
SELECT document_id FROM documents WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id
FOR KEY SHARE

-- name: lock_messages_of
SELECT message_id, content, mode, citations, sources
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
