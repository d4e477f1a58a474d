-- name: lock_index
SELECT pg_try_advisory_lock(%(key)s, %(model_id)s)

-- name: unlock_index
SELECT pg_advisory_unlock(%(key)s, %(model_id)s)

-- name: index_state
-- No row: there is none. false: a build that did not finish.
SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass(%(name)s)

-- name: count_vectors
SELECT count(*) FROM (SELECT FROM vectors v WHERE v.model_id = %(model_id)s LIMIT %(limit)s) AS seen

-- name: drop_index
DROP INDEX IF EXISTS {name}

-- name: index_settings
SELECT set_config('maintenance_work_mem', '256MB', false), set_config('lock_timeout', '1min', false)

-- name: reset_index_settings
SELECT set_config('maintenance_work_mem', reset_val, false) FROM pg_settings WHERE name = 'maintenance_work_mem'
UNION ALL
SELECT set_config('lock_timeout', reset_val, false) FROM pg_settings WHERE name = 'lock_timeout'

-- name: create_index
-- Beside writers and readers: neither waits for the build.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors
USING hnsw ((embedding::halfvec({dimension})) halfvec_cosine_ops)
WITH (m = 16, ef_construction = 64)
WHERE model_id = {model_id}
