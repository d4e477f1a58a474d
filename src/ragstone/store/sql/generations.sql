-- name: lock_building
SELECT pg_try_advisory_lock(%(key)s, hashtext(%(base_id)s))

-- name: unlock_building
SELECT pg_advisory_unlock(%(key)s, hashtext(%(base_id)s))

-- name: generations
SELECT g.generation_id, g.base_id, m.identity AS model, m.dimension, g.settings, g.state, g.created_at,
       count(h.document_id)::integer AS documents, coalesce(sum(h.chunk_count), 0)::integer AS chunks
FROM generations g
JOIN models m USING (model_id)
LEFT JOIN generation_documents h USING (generation_id)
WHERE g.base_id = %(base_id)s
GROUP BY g.generation_id, m.identity, m.dimension
ORDER BY g.generation_id

-- name: missing_documents
SELECT d.document_id, d.uri, d.title
FROM documents d JOIN generations g USING (base_id)
WHERE g.generation_id = %(generation_id)s AND d.document_id > %(after)s
  AND NOT EXISTS (SELECT FROM generation_documents h
                  WHERE h.document_id = d.document_id AND h.generation_id = g.generation_id)
ORDER BY d.document_id
LIMIT %(limit)s

-- name: count_missing
SELECT count(*)
FROM documents d JOIN generations g USING (base_id)
WHERE g.generation_id = %(generation_id)s
  AND NOT EXISTS (SELECT FROM generation_documents h
                  WHERE h.document_id = d.document_id AND h.generation_id = g.generation_id)

-- name: lock_revision
-- A writer of this document waits; another builder does not.
SELECT revision,
       EXISTS (SELECT FROM generation_documents h WHERE h.document_id = d.document_id
               AND h.generation_id = %(generation_id)s) AS there
FROM documents d WHERE document_id = %(document_id)s
FOR SHARE OF d

-- name: set_state
UPDATE generations SET state = %(state)s WHERE generation_id = %(generation_id)s

-- name: change_state
UPDATE generations SET state = %(to)s WHERE base_id = %(base_id)s AND state = %(state)s

-- name: collect_documents
DELETE FROM generation_documents
WHERE generation_id = %(generation_id)s
  AND document_id IN (SELECT document_id FROM generation_documents
                      WHERE generation_id = %(generation_id)s LIMIT %(limit)s)

-- name: delete_generation
DELETE FROM generations WHERE generation_id = %(generation_id)s AND state = 'abandoned'
