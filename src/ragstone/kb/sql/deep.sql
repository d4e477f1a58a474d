-- name: deep_counts
SELECT (SELECT count(*) FROM documents) AS documents, (SELECT count(*) FROM files) AS files,
       (SELECT count(*) FROM blobs) AS blobs, (SELECT count(*) FROM jobs) AS jobs,
       (SELECT count(*) FROM messages) AS messages

-- name: deep_findings
-- Everything at one moment. Names are those of the sentences in messages/doctor.toml.
WITH active AS (
    SELECT generation_id, base_id FROM generations WHERE state = 'active'
), found (name, id) AS (
    SELECT 'waiting_files', f.document_id FROM files f
    WHERE f.status IN ('pending', 'processing') AND NOT EXISTS (
        SELECT 1 FROM jobs j WHERE j.document_id = f.document_id AND j.state IN ('queued', 'running'))
    UNION ALL
    SELECT 'lost_files', f.document_id FROM files f
    WHERE f.status = 'ready' AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.document_id = f.document_id)
    UNION ALL
    SELECT 'lost_jobs', j.job_id FROM jobs j
    WHERE j.document_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM files f WHERE f.document_id = j.document_id)
    UNION ALL
    SELECT 'silent_jobs', j.job_id FROM jobs j WHERE j.state = 'running' AND j.lease_until < now()
    UNION ALL
    SELECT 'loose_blobs', b.blob_hash FROM blobs b
    WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.blob_hash = b.blob_hash)
      AND NOT EXISTS (SELECT 1 FROM blob_holds h WHERE h.blob_hash = b.blob_hash)
    UNION ALL
    SELECT 'expired_holds', h.hold_id FROM blob_holds h WHERE h.until < now()
    UNION ALL
    SELECT 'silent_messages', m.message_id FROM messages m
    WHERE m.status = 'streaming' AND coalesce(m.alive_until, m.created_at) < now()
    UNION ALL
    SELECT 'lost_members', d.document_id FROM documents d
    WHERE d.uri LIKE '%!/%'
      AND NOT EXISTS (SELECT 1 FROM documents c
                      WHERE c.base_id = d.base_id AND c.uri = substr(d.uri, 1, strpos(d.uri, '!/') - 1))
      AND NOT EXISTS (SELECT 1 FROM files c
                      WHERE c.base_id = d.base_id AND c.uri = substr(d.uri, 1, strpos(d.uri, '!/') - 1))
    UNION ALL
    SELECT 'unsearchable', d.document_id FROM documents d
    WHERE NOT EXISTS (SELECT 1 FROM generation_documents h JOIN active a USING (generation_id)
                      WHERE h.document_id = d.document_id)
    UNION ALL
    SELECT 'chunks_without_vector', c.chunk_id FROM chunks c
    WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.chunk_id = c.chunk_id)
    UNION ALL
    SELECT 'miscounted', h.document_id FROM generation_documents h
    WHERE h.chunk_count <> (SELECT count(*) FROM chunks c
                            WHERE c.document_id = h.document_id AND c.generation_id = h.generation_id)
)
SELECT name, count(*) AS count, (array_agg(id ORDER BY id))[1:3] AS examples
FROM found GROUP BY name ORDER BY name

-- name: blobs_of_files
SELECT DISTINCT blob_hash FROM files WHERE blob_hash IS NOT NULL

-- name: known_blobs
SELECT blob_hash FROM blobs UNION SELECT blob_hash FROM blob_holds
