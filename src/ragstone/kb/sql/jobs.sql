-- name: forget_index
-- What became of the document before is no longer the news.
DELETE FROM jobs WHERE document_id = ANY (%(document_ids)s) AND state NOT IN ('queued', 'running')

-- name: enqueue_index
INSERT INTO jobs (kind, base_id, document_id)
SELECT 'index', base_id, document_id FROM files WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id
ON CONFLICT (document_id) WHERE state IN ('queued', 'running')
DO UPDATE SET again = jobs.state = 'running', run_after = now(),
              attempts = CASE jobs.state WHEN 'running' THEN jobs.attempts ELSE 0 END
RETURNING job_id

-- name: forget_reindex
DELETE FROM jobs
WHERE base_id = %(base_id)s AND kind = 'reindex' AND state NOT IN ('queued', 'running')

-- name: enqueue_reindex
INSERT INTO jobs (kind, base_id) VALUES ('reindex', %(base_id)s)
ON CONFLICT (base_id) WHERE kind = 'reindex' AND state IN ('queued', 'running')
DO UPDATE SET again = jobs.state = 'running', run_after = now(),
              attempts = CASE jobs.state WHEN 'running' THEN jobs.attempts ELSE 0 END
RETURNING job_id

-- name: take_job
WITH next AS (
    SELECT seq FROM jobs
    WHERE state = 'queued' AND run_after <= now()
    ORDER BY run_after, seq
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
SET state = 'running', attempts = j.attempts + 1, worker_id = %(worker_id)s,
    lease_until = now() + make_interval(secs => %(lease)s),
    started_at = now(), finished_at = NULL, stage = '', progress = 0
FROM next WHERE j.seq = next.seq
RETURNING j.job_id, j.kind, j.base_id, j.document_id, j.attempts, j.worker_id

-- name: next_job
-- Seconds until a waiting job is due.
SELECT extract(epoch FROM min(run_after) - now())::double precision FROM jobs WHERE state = 'queued'

-- name: start_file
UPDATE files SET status = 'processing', updated_at = now() WHERE document_id = %(document_id)s

-- name: beat_job
UPDATE jobs
SET lease_until = now() + make_interval(secs => %(lease)s), stage = %(stage)s, progress = %(progress)s
WHERE job_id = %(job_id)s AND state = 'running' AND worker_id = %(worker_id)s

-- name: hold_job
-- Until the transaction ends nobody takes the job away.
SELECT job_id FROM jobs
WHERE job_id = %(job_id)s AND state = 'running' AND worker_id = %(worker_id)s
FOR SHARE

-- name: end_job
UPDATE jobs
SET state = CASE WHEN again THEN 'queued' ELSE %(state)s END,
    attempts = CASE WHEN again THEN 0 ELSE attempts + %(uncounted)s END,
    run_after = now() + make_interval(secs => CASE WHEN again THEN 0 ELSE %(delay)s END),
    progress = CASE WHEN NOT again AND %(state)s = 'done' THEN 1 ELSE progress END,
    error_code = CASE WHEN NOT again THEN %(error_code)s END,
    error_values = CASE WHEN NOT again THEN %(error_values)s::jsonb END,
    finished_at = CASE WHEN NOT again AND %(state)s <> 'queued' THEN now() END,
    again = false, worker_id = NULL, lease_until = NULL
WHERE job_id = %(job_id)s AND state = 'running' AND worker_id = %(worker_id)s
RETURNING state

-- name: end_file
-- Members that could not be read are known when the whole was read, and stay known until then.
UPDATE files
SET status = %(status)s, error_code = %(error_code)s, error_values = %(error_values)s::jsonb,
    failures = coalesce(%(failures)s::jsonb, failures), updated_at = now()
WHERE document_id = %(document_id)s

-- name: expired_jobs
SELECT job_id, kind, base_id, document_id, attempts, worker_id FROM jobs
WHERE state = 'running' AND lease_until < now() AND worker_id <> ALL (%(at_work)s)
ORDER BY lease_until LIMIT 100

-- name: lock_expired
-- One whose row is locked is at work.
SELECT job_id FROM jobs
WHERE job_id = %(job_id)s AND state = 'running' AND worker_id = %(worker_id)s AND lease_until < now()
FOR UPDATE SKIP LOCKED

-- name: delete_jobs
DELETE FROM jobs WHERE document_id = ANY (%(document_ids)s)

-- name: restart_job
-- Its worker finds that it is no longer its own, and writes nothing more.
UPDATE jobs
SET state = 'queued', attempts = attempts - 1, run_after = now(), worker_id = NULL, lease_until = NULL
WHERE document_id = %(document_id)s AND state = 'running'

-- name: cancel_job
UPDATE jobs
SET state = 'cancelled', again = false, worker_id = NULL, lease_until = NULL, finished_at = now()
WHERE job_id = %(job_id)s AND state IN ('queued', 'running')

-- name: list_jobs
SELECT j.job_id, j.kind, j.base_id, j.document_id, f.name, j.state, j.stage, j.progress, j.attempts,
       j.error_code, j.error_values, j.run_after, j.created_at, j.started_at, j.finished_at
FROM jobs j LEFT JOIN files f USING (document_id)
WHERE (%(job_id)s::text IS NULL OR j.job_id = %(job_id)s)
  AND (%(bases)s::text[] IS NULL OR j.base_id = ANY (%(bases)s))
  AND (%(base_id)s::text IS NULL OR j.base_id = %(base_id)s)
  AND (%(state)s::text IS NULL OR j.state = %(state)s)
ORDER BY j.seq DESC
LIMIT %(limit)s OFFSET %(offset)s

-- name: replayable_jobs
SELECT base_id, document_id FROM jobs
WHERE (%(job_id)s::text IS NULL AND state = 'dead'
       OR job_id = %(job_id)s AND state IN ('dead', 'cancelled'))
  AND (%(bases)s::text[] IS NULL OR base_id = ANY (%(bases)s))
  AND (%(base_id)s::text IS NULL OR base_id = %(base_id)s)

-- name: notify
SELECT pg_notify('ragstone_jobs', '')

-- name: listen
LISTEN ragstone_jobs

-- name: file_to_read
SELECT document_id, uri, name, metadata, blob_hash, media_type, version
FROM files WHERE document_id = %(document_id)s

-- name: waits_for_room
-- A job that met a full disk, of originals or of the database.
SELECT true FROM jobs WHERE state = 'queued' AND error_code LIKE '%%.disk_full' LIMIT 1
