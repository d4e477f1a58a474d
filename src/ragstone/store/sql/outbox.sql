-- name: index_copies
SELECT index_id, prefix, state FROM indexes
WHERE identity = %(identity)s AND (%(state)s::text IS NULL OR state = %(state)s)
ORDER BY index_id

-- name: lock_writers
-- Whoever writes vectors has ended; whoever begins will see the new copy.
LOCK TABLE vectors IN SHARE ROW EXCLUSIVE MODE

-- name: feed
-- The triggers of the outbox, off until there is an index to feed.
ALTER TABLE vectors ENABLE TRIGGER USER

-- name: lock_writers_timeout
SELECT set_config('lock_timeout', '10s', true)

-- name: register_copy
-- With nothing to fill it is ready at once.
INSERT INTO indexes (identity, prefix, state)
VALUES (%(identity)s, %(prefix)s,
        CASE WHEN EXISTS (SELECT FROM vectors)
               OR EXISTS (SELECT FROM indexes WHERE identity = %(identity)s AND state = 'ready')
             THEN 'filling' ELSE 'ready' END)
RETURNING index_id, prefix, state

-- name: lock_copy
SELECT pg_advisory_xact_lock(%(key)s, %(index_id)s)

-- name: try_lock_copy
SELECT pg_try_advisory_xact_lock(%(key)s, %(index_id)s)

-- name: waiting
-- What the index has yet to learn, beside what is true now: no vector where there is none any more.
SELECT o.seq, o.chunk_id, o.model_id, v.base_id, v.embedding
FROM (SELECT seq, chunk_id, model_id FROM outbox
      WHERE index_id = %(index_id)s AND applied_at IS NULL
      ORDER BY seq LIMIT %(limit)s) AS o
LEFT JOIN vectors v USING (chunk_id, model_id)
ORDER BY o.seq

-- name: took
UPDATE outbox SET applied_at = clock_timestamp() WHERE seq = ANY (%(seqs)s)

-- name: sweep_outbox
DELETE FROM outbox
WHERE index_id = %(index_id)s AND applied_at < clock_timestamp() - %(kept)s * interval '1 second'

-- name: fill_from
-- The next vectors to put, from the place where the filling stands.
SELECT v.chunk_id, v.model_id, v.base_id, v.embedding
FROM indexes i JOIN vectors v ON v.chunk_id > i.filled_to
WHERE i.index_id = %(index_id)s AND i.state = 'filling'
ORDER BY v.chunk_id
LIMIT %(limit)s

-- name: filled_to
UPDATE indexes
SET filled_to = %(chunk_id)s, filled = filled + %(count)s
WHERE index_id = %(index_id)s
RETURNING filled

-- name: vectors_in_all
SELECT (SELECT count(*) FROM vectors), (SELECT filled FROM indexes WHERE index_id = %(index_id)s)

-- name: retire_others
UPDATE indexes SET state = 'retired' WHERE index_id <> %(index_id)s

-- name: make_ready
UPDATE indexes SET state = 'ready' WHERE index_id = %(index_id)s

-- name: retired
SELECT i.index_id, i.identity, i.prefix, m.model_id
FROM indexes i LEFT JOIN models m ON true
WHERE i.state = 'retired'

-- name: forget_copies
DELETE FROM indexes WHERE index_id = ANY (%(index_ids)s)

-- name: count_waiting
SELECT count(*) FROM outbox o JOIN indexes i USING (index_id)
WHERE i.identity = %(identity)s AND o.applied_at IS NULL

-- name: ready_copy
-- The copy that answers, and how many vectors it may not have yet, counted up to a limit.
SELECT i.index_id, i.prefix, (
    SELECT count(*) FROM (
        SELECT FROM outbox o
        WHERE o.index_id = i.index_id AND o.model_id = %(model_id)s
          AND (o.applied_at IS NULL OR o.applied_at > now() - %(fresh)s * interval '1 second')
        LIMIT %(limit)s
    ) AS fresh
) AS waiting
FROM indexes i
WHERE i.identity = %(identity)s AND i.state = 'ready'

-- name: search_among
-- What the index proposes and what it may not have yet, judged here: deleted rows, foreign bases and
-- rows that the filter refuses are not found, whatever the index says.
WITH candidate AS MATERIALIZED (
    SELECT unnest(%(chunk_ids)s::text[]) AS chunk_id
    UNION
    SELECT o.chunk_id FROM outbox o
    WHERE o.index_id = %(index_id)s AND o.model_id = {model_id}
      AND (o.applied_at IS NULL OR o.applied_at > now() - %(fresh)s * interval '1 second')
), k AS MATERIALIZED (
    SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM candidate JOIN vectors v USING (chunk_id) {join}
    WHERE v.model_id = {model_id} AND {scope}
      -- Another copy took over in between: its rows of the outbox are gone.
      AND EXISTS (SELECT FROM indexes WHERE index_id = %(index_id)s AND state = 'ready')
), nearest AS (
    SELECT chunk_id, distance FROM k ORDER BY distance FETCH FIRST %(top_k)s ROWS WITH TIES
)
SELECT c.chunk_id, c.document_id, c.index, n.distance, true AS large
FROM nearest n JOIN chunks c USING (chunk_id) {place}
ORDER BY n.distance, place.uri, c.index, place.since, c.document_id
LIMIT %(top_k)s
