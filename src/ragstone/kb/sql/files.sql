-- name: lock_blob_shared
-- Whoever removes a blob holds this lock alone.
SELECT pg_advisory_xact_lock_shared(hashtextextended(%(blob_hash)s, 0))

-- name: lock_blob
SELECT pg_advisory_xact_lock(hashtextextended(%(blob_hash)s, 0))

-- name: hold_blob
INSERT INTO blob_holds (hold_id, blob_hash, until)
VALUES (%(hold_id)s, %(blob_hash)s, now() + make_interval(secs => %(seconds)s))

-- name: drop_hold
DELETE FROM blob_holds WHERE hold_id = %(hold_id)s

-- name: drop_expired_holds
-- And this one, where it is given.
DELETE FROM blob_holds
WHERE blob_hash = %(blob_hash)s AND (until < now() OR hold_id = %(hold_id)s)

-- name: blob_in_use
SELECT EXISTS (SELECT 1 FROM files WHERE blob_hash = %(blob_hash)s)
    OR EXISTS (SELECT 1 FROM blob_holds WHERE blob_hash = %(blob_hash)s)

-- name: insert_blob
INSERT INTO blobs (blob_hash, size) VALUES (%(blob_hash)s, %(size)s)
ON CONFLICT DO NOTHING

-- name: delete_blob
DELETE FROM blobs WHERE blob_hash = %(blob_hash)s

-- name: loose_blobs
-- Those that no file names, and those of uploads whose process is gone.
SELECT blob_hash FROM blobs b
WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.blob_hash = b.blob_hash)
  AND NOT EXISTS (SELECT 1 FROM blob_holds h WHERE h.blob_hash = b.blob_hash)
UNION
SELECT blob_hash FROM blob_holds WHERE until < now()

-- name: insert_file
INSERT INTO files (document_id, base_id, uri, name, category, metadata, blob_hash, size, media_type, status)
VALUES (%(document_id)s, %(base_id)s, %(uri)s, %(name)s, %(category)s, %(metadata)s::jsonb, %(blob_hash)s,
        %(size)s, %(media_type)s, 'pending')
ON CONFLICT DO NOTHING

-- name: lock_file
SELECT document_id, base_id, uri, blob_hash, status FROM files
WHERE document_id = %(document_id)s
FOR NO KEY UPDATE

-- name: new_version
-- The text that was read of the version before answers until this one is ready.
UPDATE files
SET name = %(name)s, blob_hash = %(blob_hash)s, size = %(size)s, media_type = %(media_type)s,
    version = version + 1, status = 'pending', error_code = NULL, error_values = NULL, updated_at = now()
WHERE document_id = %(document_id)s

-- name: lock_some_files
SELECT document_id FROM files WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id
FOR NO KEY UPDATE

-- name: queue_files
UPDATE files SET status = 'pending', error_code = NULL, error_values = NULL, updated_at = now()
WHERE document_id = ANY (%(document_ids)s)

-- name: keep_original
-- Of an address that a job has read; unless another version was asked for meanwhile.
UPDATE files SET blob_hash = %(blob_hash)s, size = %(size)s, media_type = %(media_type)s, name = %(name)s
WHERE document_id = %(document_id)s AND version = %(version)s

-- name: failed_files
SELECT document_id FROM files WHERE base_id = %(base_id)s AND status = 'failed'
ORDER BY document_id
FOR NO KEY UPDATE

-- name: adopt_document
-- A document that was added on the command line gets a row for what people say about it. Whoever
-- has a row locks that first: a deletion takes the file before the document.
INSERT INTO files (document_id, base_id, uri, name, media_type, status)
SELECT document_id, base_id, uri, title, media_type, 'ready' FROM documents
WHERE document_id = %(document_id)s
FOR KEY SHARE
ON CONFLICT DO NOTHING

-- name: edit_file
UPDATE files
SET name = coalesce(%(name)s, name), category = coalesce(%(category)s, category),
    metadata = coalesce(%(metadata)s::jsonb, metadata), updated_at = now()
WHERE document_id = %(document_id)s

-- name: edit_document_metadata
UPDATE documents d SET metadata = (d.metadata - %(before)s::text[]) || %(metadata)s::jsonb
WHERE d.document_id = %(document_id)s

-- name: edit_chunk_metadata
UPDATE chunks c SET metadata = (c.metadata - %(before)s::text[]) || %(metadata)s::jsonb
WHERE c.document_id = %(document_id)s

-- name: count_access
UPDATE files SET accesses = accesses + 1 WHERE document_id = %(document_id)s

-- name: list_files
-- Uploaded ones, and those that came another way, which are ready. One row at least: with the total.
WITH uploaded AS (
    SELECT * FROM files WHERE base_id = %(base_id)s
      AND (%(document_ids)s::text[] IS NULL OR document_id = ANY (%(document_ids)s))
), stored AS (
    SELECT d.document_id, d.base_id, d.uri, d.title, d.media_type, d.metadata, d.created_at, d.updated_at,
           jsonb_array_length(d.pages) AS pages, d.warnings, h.chunk_count
    FROM documents d
    JOIN generations g ON g.base_id = d.base_id AND g.state = 'active'
    JOIN generation_documents h USING (generation_id, document_id)
    WHERE d.base_id = %(base_id)s
      AND (%(document_ids)s::text[] IS NULL OR document_id = ANY (%(document_ids)s))
), found AS (
    SELECT document_id, coalesce(f.base_id, d.base_id) AS base_id, coalesce(f.uri, d.uri) AS uri,
           coalesce(f.name, d.title) AS name, coalesce(d.title, '') AS title,
           coalesce(f.category, '') AS category,
           coalesce(d.media_type, f.media_type) AS media_type, coalesce(f.size, 0) AS size,
           f.blob_hash, coalesce(f.version, 1) AS version, coalesce(f.status, 'ready') AS status,
           f.error_code, f.error_values, coalesce(f.failures, '[]') AS failures,
           coalesce(f.metadata, '{}') AS own_metadata, coalesce(d.metadata, f.metadata) AS metadata,
           coalesce(f.accesses, 0) AS accesses, coalesce(d.chunk_count, 0) AS chunks,
           coalesce(d.pages, 0) AS pages, coalesce(d.warnings, '[]') AS warnings,
           d.document_id IS NOT NULL AS searchable,
           coalesce(f.created_at, d.created_at) AS created_at,
           greatest(f.updated_at, d.updated_at) AS updated_at
    FROM uploaded f FULL JOIN stored d USING (document_id)
), chosen AS (
    SELECT * FROM found
    WHERE (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s))
      AND (%(category)s::text IS NULL OR category = %(category)s)
      AND (%(search)s::text IS NULL
           OR position(lower(normalize(%(search)s, NFKC)) IN lower(normalize(name || E'\n' || title, NFKC))) > 0)
)
SELECT total.n AS total, page.*, j.state AS job_state, j.stage, j.progress, j.attempts, j.run_after
FROM (SELECT count(*) AS n FROM chosen) total
LEFT JOIN LATERAL (
    SELECT *, row_number() OVER (
        ORDER BY CASE WHEN NOT %(descending)s AND %(sort)s = 'name' THEN lower(name) END,
                 CASE WHEN %(descending)s AND %(sort)s = 'name' THEN lower(name) END DESC,
                 CASE WHEN %(descending)s THEN -1 ELSE 1 END
                 * CASE %(sort)s WHEN 'size' THEN size::numeric WHEN 'accesses' THEN accesses
                                 WHEN 'updated' THEN extract(epoch FROM updated_at)
                                 WHEN 'created' THEN extract(epoch FROM created_at) END,
                 document_id) AS place
    FROM chosen
    ORDER BY place LIMIT %(limit)s OFFSET %(offset)s
) page ON true
LEFT JOIN jobs j ON j.document_id = page.document_id AND j.state IN ('queued', 'running')
ORDER BY page.place

-- name: file_text
SELECT substr(text, %(start)s + 1, %(length)s) AS text, length(text) AS characters, pages, headings
FROM documents WHERE document_id = %(document_id)s

-- name: lock_files
SELECT blob_hash FROM files
WHERE document_id = ANY (%(document_ids)s) AND (%(bases)s::text[] IS NULL OR base_id = ANY (%(bases)s))
ORDER BY document_id
FOR UPDATE

-- name: documents_to_delete
SELECT document_id, base_id FROM files
WHERE document_id = ANY (%(document_ids)s) AND (%(bases)s::text[] IS NULL OR base_id = ANY (%(bases)s))
UNION
SELECT document_id, base_id FROM documents
WHERE document_id = ANY (%(document_ids)s) AND (%(bases)s::text[] IS NULL OR base_id = ANY (%(bases)s))
ORDER BY document_id

-- name: members_of
-- Their uris begin with the container's own and !/ (0 comes after /). A container that failed half
-- way has members and no document of its own.
SELECT m.document_id
FROM (SELECT base_id, uri FROM files WHERE document_id = ANY (%(document_ids)s)
      UNION SELECT base_id, uri FROM documents WHERE document_id = ANY (%(document_ids)s)) c
JOIN documents m ON m.base_id = c.base_id AND m.uri >= c.uri || '!/' AND m.uri < c.uri || '!0'
WHERE m.document_id <> ALL (%(document_ids)s)
ORDER BY m.document_id

-- name: delete_files
DELETE FROM files WHERE document_id = ANY (%(document_ids)s)

-- name: left_of_document
-- As `removal.TABLES` names them.
SELECT (SELECT count(*) FROM files WHERE document_id = %(document_id)s),
       (SELECT count(*) FROM jobs WHERE document_id = %(document_id)s),
       (SELECT count(*) FROM messages WHERE source_documents && ARRAY[%(document_id)s]::text[]),
       (SELECT count(*) FROM blobs b
        WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.blob_hash = b.blob_hash)
          AND NOT EXISTS (SELECT 1 FROM blob_holds h WHERE h.blob_hash = b.blob_hash))

-- name: some_documents
(SELECT document_id FROM files WHERE base_id = %(base_id)s LIMIT %(limit)s)
UNION
(SELECT document_id FROM documents WHERE base_id = %(base_id)s LIMIT %(limit)s)
LIMIT %(limit)s

-- name: delete_lost_files
-- Ready without a document: that was removed on the command line, or as a member that is gone.
DELETE FROM files f
WHERE status = 'ready' AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.document_id = f.document_id)

-- name: base_of_document
SELECT base_id FROM files WHERE document_id = %(document_id)s
UNION
SELECT base_id FROM documents WHERE document_id = %(document_id)s

-- name: base_there
SELECT 1 FROM bases WHERE base_id = %(base_id)s

-- name: list_passages
SELECT c.chunk_id
FROM chunks c JOIN generations g USING (generation_id)
WHERE c.document_id = %(document_id)s AND g.state = 'active'
ORDER BY c.index
LIMIT %(limit)s OFFSET %(offset)s

-- name: boxes_between
SELECT box FROM documents d CROSS JOIN LATERAL jsonb_array_elements(d.boxes) box
WHERE d.document_id = %(document_id)s
  AND (box->>1)::integer < %(end)s AND (box->>2)::integer > %(start)s

-- name: file_names
SELECT document_id, name FROM files WHERE document_id = ANY (%(document_ids)s)
