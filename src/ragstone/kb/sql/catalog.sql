-- name: own_settings
SELECT settings FROM base_details WHERE base_id = %(base_id)s

-- name: own_settings_locked
SELECT settings FROM base_details WHERE base_id = %(base_id)s FOR NO KEY UPDATE

-- name: insert_details
INSERT INTO base_details (base_id) SELECT base_id FROM bases WHERE base_id = %(base_id)s FOR KEY SHARE
ON CONFLICT DO NOTHING

-- name: write_details
UPDATE base_details
SET description = coalesce(%(description)s, description), category = coalesce(%(category)s, category),
    settings = %(settings)s, updated_at = now()
WHERE base_id = %(base_id)s

-- name: rename_base
UPDATE bases SET name = %(name)s WHERE base_id = %(base_id)s

-- name: count_base_access
INSERT INTO base_details (base_id, accesses)
SELECT base_id, 1 FROM bases WHERE base_id = %(base_id)s
FOR KEY SHARE
ON CONFLICT (base_id) DO UPDATE SET accesses = base_details.accesses + 1

-- name: list_base_details
-- One row at least: with the total.
WITH chosen AS (
    SELECT b.base_id, b.name, b.created_at, coalesce(e.description, '') AS description,
           coalesce(e.category, '') AS category, coalesce(e.settings, '{}') AS settings,
           coalesce(e.accesses, 0) AS accesses, m.identity AS model, g.generation_id
    FROM bases b
    LEFT JOIN base_details e USING (base_id)
    LEFT JOIN generations g ON g.base_id = b.base_id AND g.state = 'active'
    LEFT JOIN models m USING (model_id)
    WHERE (%(bases)s::text[] IS NULL OR b.base_id = ANY (%(bases)s))
      AND (%(category)s::text IS NULL OR coalesce(e.category, '') = %(category)s)
      AND (%(search)s::text IS NULL
           OR position(lower(normalize(%(search)s, NFKC))
                       IN lower(normalize(b.name || E'\n' || coalesce(e.description, ''), NFKC))) > 0)
), counted AS (
    SELECT c.*, h.chunks, f.size, f.pending, f.processing, f.failed,
           h.stored - f.unfinished_stored AS ready,
           h.stored + f.unfinished - f.unfinished_stored AS documents,
           (SELECT count(*) FROM question_bases q WHERE q.base_id = c.base_id) AS questions
    FROM chosen c
    CROSS JOIN LATERAL (
        SELECT count(*) AS stored, coalesce(sum(h.chunk_count), 0)::bigint AS chunks
        FROM generation_documents h WHERE h.generation_id = c.generation_id
    ) h
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(f.size), 0)::bigint AS size,
               count(*) FILTER (WHERE f.status = 'pending') AS pending,
               count(*) FILTER (WHERE f.status = 'processing') AS processing,
               count(*) FILTER (WHERE f.status = 'failed') AS failed,
               count(*) FILTER (WHERE f.status <> 'ready') AS unfinished,
               -- An earlier version of these is there.
               count(*) FILTER (WHERE f.status <> 'ready' AND h.document_id IS NOT NULL) AS unfinished_stored
        FROM files f
        LEFT JOIN generation_documents h
               ON h.document_id = f.document_id AND h.generation_id = c.generation_id
        WHERE f.base_id = c.base_id
    ) f
)
SELECT total.n AS total, page.*
FROM (SELECT count(*) AS n FROM chosen) total
LEFT JOIN LATERAL (
    SELECT *, row_number() OVER (
        ORDER BY CASE WHEN NOT %(descending)s AND %(sort)s = 'name' THEN lower(name) END,
                 CASE WHEN %(descending)s AND %(sort)s = 'name' THEN lower(name) END DESC,
                 CASE WHEN %(descending)s THEN -1 ELSE 1 END
                 * CASE %(sort)s WHEN 'size' THEN size::numeric WHEN 'accesses' THEN accesses
                                 WHEN 'documents' THEN documents WHEN 'questions' THEN questions
                                 WHEN 'created' THEN extract(epoch FROM created_at) END,
                 base_id) AS place
    FROM counted
    ORDER BY place LIMIT %(limit)s OFFSET %(offset)s
) page ON true
ORDER BY page.place

-- name: statistics
-- `bases` null is every base; `since` null is from the beginning.
WITH seen AS (
    SELECT base_id FROM bases WHERE %(bases)s::text[] IS NULL OR base_id = ANY (%(bases)s)
), stored AS (
    SELECT h.document_id, h.chunk_count
    FROM generations g JOIN seen USING (base_id) JOIN generation_documents h USING (generation_id)
    WHERE g.state = 'active'
), states AS (
    SELECT coalesce(f.status, 'ready') AS status, coalesce(f.category, '') AS category,
           coalesce(f.size, 0) AS size, coalesce(f.accesses, 0) AS accesses,
           coalesce(s.chunk_count, 0) AS chunks
    FROM (SELECT f.* FROM files f JOIN seen USING (base_id)) f FULL JOIN stored s USING (document_id)
), asked AS (
    SELECT q.* FROM questions q
    WHERE (%(since)s::timestamptz IS NULL OR q.at >= %(since)s)
      AND (%(bases)s::text[] IS NULL OR EXISTS (
          SELECT 1 FROM question_bases b JOIN seen USING (base_id) WHERE b.question_id = q.question_id))
)
SELECT (SELECT count(*) FROM seen) AS bases,
       d.*, q.*,
       d.opened + (SELECT coalesce(sum(e.accesses), 0)::bigint FROM base_details e JOIN seen USING (base_id))
           AS accesses,
       (SELECT coalesce(jsonb_object_agg(category, n), '{}')
        FROM (SELECT category, count(*) AS n FROM states GROUP BY category) c) AS categories
FROM (
    SELECT count(*) AS documents, count(*) FILTER (WHERE status = 'pending') AS pending,
           count(*) FILTER (WHERE status = 'processing') AS processing,
           count(*) FILTER (WHERE status = 'ready') AS ready,
           count(*) FILTER (WHERE status = 'failed') AS failed,
           coalesce(sum(chunks), 0)::bigint AS chunks, coalesce(sum(size), 0)::bigint AS size,
           coalesce(sum(accesses), 0)::bigint AS opened
    FROM states
) d CROSS JOIN (
    SELECT count(*) AS questions,
           count(*) FILTER (WHERE status = 'complete' AND answered) AS answered,
           count(*) FILTER (WHERE status = 'complete' AND NOT answered) AS refused,
           count(*) FILTER (WHERE status = 'partial') AS interrupted,
           count(*) FILTER (WHERE status = 'failed') AS broken,
           round(percentile_cont(0.5) WITHIN GROUP (ORDER BY first_ms)::numeric, 1)::float8 AS first_ms_p50,
           round(percentile_cont(0.95) WITHIN GROUP (ORDER BY first_ms)::numeric, 1)::float8 AS first_ms_p95,
           round(percentile_cont(0.5) WITHIN GROUP (ORDER BY total_ms)::numeric, 1)::float8 AS total_ms_p50,
           round(percentile_cont(0.95) WITHIN GROUP (ORDER BY total_ms)::numeric, 1)::float8 AS total_ms_p95
    FROM asked
) q
