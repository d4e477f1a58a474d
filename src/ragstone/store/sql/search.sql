-- name: one_moment
-- Both halves of a hybrid search, and the count before them, see the same documents.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: all_rows
true

-- name: in_bases
{table}.base_id = ANY (%(bases)s)

-- name: answering
-- Of the generation that answers in its base. Those that do not are few, mostly none; behind
-- `coalesce` the planner does not guess from them how many rows remain.
NOT coalesce({table}.generation_id = ANY (ARRAY(
    SELECT generation_id FROM generations WHERE state <> 'active')), false)

-- name: of_generation
{table}.generation_id = %(generation_id)s

-- name: documents_inside
h.generation_id = ANY (ARRAY(SELECT g.generation_id FROM generations g WHERE {scope}))

-- name: filter_equal
-- Held as it is, or as an element of a list. Containment is what the index answers.
(c.metadata @> {value}::jsonb OR c.metadata @> {item}::jsonb)

-- name: filter_and
({left} AND {right})

-- name: filter_in
c.metadata @> ANY ({values}::jsonb[])

-- name: filter_compare
-- Two-valued: no key gives null, which counts as false.
coalesce(jsonb_path_exists(c.metadata -> {key}::text, {path}::jsonpath, {value}::jsonb, true), false)

-- name: filter_present
c.metadata ? {key}::text

-- name: filter_or
({left} OR {right})

-- name: filter_not
(NOT {inner})

-- name: filter_never
false

-- name: with_chunks
JOIN chunks c USING (chunk_id)

-- name: with_each_chunk
CROSS JOIN LATERAL (SELECT FROM chunks c WHERE c.chunk_id = v.chunk_id AND {scope} OFFSET 0) AS passed

-- name: other_model
-- A base in the scope whose vectors are of another model. The inner query stays one, for each such
-- base: as a join it would read all documents.
SELECT b.name, m.identity
FROM generations g JOIN bases b USING (base_id) JOIN models m USING (model_id)
WHERE m.identity <> %(identity)s AND {scope}
  AND (SELECT true FROM generation_documents h
       WHERE h.generation_id = g.generation_id AND h.chunk_count > 0 LIMIT 1)
ORDER BY b.name
LIMIT 1

-- name: walk_settings
-- For a vector search in this transaction: walk the graph in the order of distance, go on until the
-- filter has let enough through, and take no plan that sorts everything instead.
SELECT set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'strict_order', true),
       set_config('enable_sort', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('plan_cache_mode', %(plans)s, true)

-- name: one_plan
-- Prepared statements of this transaction are planned once, not for each question.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: vectors_inside
SELECT v.chunk_id FROM vectors v WHERE v.model_id = {model_id} AND {scope} LIMIT %(limit)s

-- name: chunks_inside
-- A filter reads the chunks; their vectors need not be looked up to be counted.
SELECT c.chunk_id FROM chunks c WHERE {scope} LIMIT %(limit)s

-- name: distances_inside
SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
FROM vectors v WHERE v.model_id = {model_id} AND {scope} LIMIT %(limit)s

-- name: scanned_vectors
SELECT chunk_id, distance FROM inside WHERE (SELECT n FROM size) < %(limit)s

-- name: scanned_chunks
SELECT chunk_id FROM inside WHERE (SELECT n FROM size) < %(limit)s

-- name: rest_of_vectors
SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
FROM vectors v
WHERE v.model_id = {model_id} AND {scope}
  AND (SELECT n FROM size) >= %(limit)s AND (SELECT count(*) FROM walked) < %(top_k)s

-- name: rest_of_chunks
SELECT c.chunk_id FROM chunks c
WHERE {scope} AND (SELECT n FROM size) >= %(limit)s AND (SELECT count(*) FROM walked) < %(top_k)s

-- name: distances_of_chunks
-- Ids in an array, and no other condition beside them, leave the planner one way: the key of `vectors`
-- in the order of its pages. For a join it would need to know how many there are, and without
-- statistics it compares all with all.
SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
FROM (SELECT chunk_id, model_id, embedding FROM vectors WHERE chunk_id = ANY (ARRAY({chunks})) OFFSET 0) AS v
WHERE v.model_id = {model_id}

-- name: count_inside
SELECT count(*) FROM ({inside}) AS inside

-- name: search_vector
-- Three ways in one statement, of which the conditions on counts let one run (two where a walk
-- finds too few): a scan of a scope of fewer than %(limit)s rows, a walk through the index, a scan
-- of everything when the walk gave up (a filter that few rows near the question pass, zero vectors).
-- None depends on what the planner believes: it has no statistics right after many writes.
WITH inside AS MATERIALIZED (
    {inside}
), size AS MATERIALIZED (
    SELECT count(*) AS n FROM inside
), scanned AS MATERIALIZED (
    {scanned}
), walked AS MATERIALIZED (
    SELECT v.chunk_id, v.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) AS distance
    FROM vectors v {join}
    WHERE v.model_id = {model_id} AND {scope} AND (SELECT n FROM size) >= %(limit)s
    ORDER BY v.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension})
    LIMIT %(top_k)s
), rest AS MATERIALIZED (
    {rest}
), nearest AS (
    -- The distance to a zero vector is NaN, which sorts behind every number.
    SELECT chunk_id, distance
    FROM (SELECT * FROM scanned
          UNION ALL SELECT * FROM walked WHERE (SELECT count(*) FROM walked) = %(top_k)s
          UNION ALL SELECT * FROM rest) AS found
    ORDER BY distance FETCH FIRST %(top_k)s ROWS WITH TIES
)
SELECT c.chunk_id, c.document_id, c.index, n.distance, (SELECT n FROM size) >= %(limit)s AS large
FROM nearest n JOIN chunks c USING (chunk_id) {place}
ORDER BY n.distance, place.uri, c.index, place.since, c.document_id
LIMIT %(top_k)s

-- name: place
-- Equal scores come by address and place in the document, of copies the one in the older base first.
CROSS JOIN LATERAL (
    SELECT d.uri, (SELECT b.created_at FROM bases b WHERE b.base_id = d.base_id) AS since
    FROM documents d WHERE d.document_id = c.document_id OFFSET 0) AS place

-- name: text_size
SELECT coalesce(sum(chunk_count), 0)::float8 AS chunks,
       greatest(coalesce(sum(term_count), 0)::float8 / greatest(coalesce(sum(chunk_count), 0), 1), 1) AS mean
FROM generation_documents h WHERE {documents}

-- name: count_terms
SELECT (SELECT count(*) FROM (SELECT FROM chunks c WHERE c.terms @@ q.term::tsquery AND {chunks} LIMIT %(limit)s) AS held)
FROM unnest(%(terms)s::text[]) WITH ORDINALITY AS q (term, place)
ORDER BY place

-- name: common_terms
-- What ANALYZE has counted over all bases: the share of rows that hold a term, for the commonest few
-- thousand. It says which terms to look at first, and never what a term weighs.
SELECT held.term, held.share
FROM pg_stats s,
     unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) AS held (term, share)
WHERE s.tablename = 'chunks' AND s.attname = 'terms' AND held.term IS NOT NULL AND held.share > %(share)s
  AND s.schemaname = (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 'chunks'::regclass)

-- name: search_text
-- BM25 (k1, b as in the store in memory) over the chunks of the bases that are searched, as a share of
-- the most that a chunk could reach with these terms: 0 to 1. Nothing outside of these bases is
-- counted: a score would tell what stands there. How often a chunk holds a term is read from ts_rank, which for one
-- term is the sum of 1 / n^2 over its places by pi^2 / 6.
--
-- Rows of terms that come with a number of rows (common ones) are not looked through. Each row that
-- holds one of the others is seen once, without its text; those whose terms weigh most are ranked
-- (all that weigh the same, so that a question of one word is exact). Where these are too few, rows
-- of the common terms join: those that hold all of them, then the first two, then one.
WITH question AS MATERIALIZED (
    SELECT place, term::tsquery AS term, rows
    FROM unnest(%(terms)s::text[], %(rows)s::float8[]) WITH ORDINALITY AS asked (term, rows, place)
), counted AS MATERIALIZED (
    SELECT coalesce(sum(chunk_count), 0)::float8 AS chunks, coalesce(sum(term_count), 0)::float8 AS terms
    FROM generation_documents h WHERE {documents}
), total AS MATERIALIZED (
    SELECT coalesce(%(chunks)s::float8, (SELECT chunks FROM counted)) AS n,
           coalesce(%(mean)s::float8, (SELECT greatest(terms / greatest(chunks, 1), 1) FROM counted)) AS mean
), held AS MATERIALIZED (
    -- A row's place in the table serves as its id: it is found again without an index.
    SELECT q.place, f.at, f.inside
    FROM question q CROSS JOIN LATERAL (
        SELECT c.ctid AS at, {scope} AS inside FROM chunks c WHERE c.terms @@ q.term AND {chunks} OFFSET 0
    ) AS f
    WHERE q.rows IS NULL
), known AS MATERIALIZED (
    -- A term is common by its rows in these bases alone, however that came to be known.
    SELECT q.place, q.term, s.seen, coalesce(q.rows IS NOT NULL OR s.seen > %(cap)s::float8, false) AS common
    FROM question q
    LEFT JOIN (SELECT place, count(*) AS seen FROM held GROUP BY place) AS h USING (place)
    CROSS JOIN LATERAL (SELECT coalesce(q.rows, h.seen, 0) AS seen) AS s
), weighted AS MATERIALIZED (
    SELECT place, term, common, idf / sum(idf) OVER () AS share
    FROM (SELECT q.place, q.term, q.common, ln(1 + (t.n - k.seen + 0.5) / (k.seen + 0.5)) AS idf
          FROM known q CROSS JOIN total t
          CROSS JOIN LATERAL (SELECT least(CASE WHEN q.common THEN coalesce(%(common)s::float8, q.seen) ELSE q.seen END, t.n) AS seen) AS k) AS priced
), common AS MATERIALIZED (
    SELECT term, row_number() OVER (ORDER BY place) AS nth, count(*) OVER () AS all FROM known WHERE common
), fills AS MATERIALIZED (
    SELECT 1 AS tier, string_agg(term::text, ' & ')::tsquery AS fill FROM common WHERE common.all > 1
    UNION ALL SELECT 2, string_agg(term::text, ' & ')::tsquery FROM common WHERE common.all > 2 AND nth <= 2
    UNION ALL SELECT 2 + nth, term FROM common
), fill AS MATERIALIZED (
    SELECT f.at, -min(tier) AS weight
    FROM (SELECT u.tier, c.at
          FROM (SELECT * FROM fills WHERE fill IS NOT NULL ORDER BY tier OFFSET 0) AS u
          CROSS JOIN LATERAL (
              SELECT c.ctid AS at FROM chunks c WHERE c.terms @@ u.fill AND {scope} OFFSET 0
          ) AS c
          WHERE (SELECT count(*) FROM held JOIN known USING (place) WHERE inside AND NOT common) < %(ranked)s
          LIMIT %(candidates)s) AS f
    GROUP BY f.at
), likely AS MATERIALIZED (
    SELECT at, max(weight) AS weight
    FROM (SELECT h.at, sum(w.share) AS weight
          FROM held h JOIN weighted w USING (place) WHERE h.inside AND NOT w.common GROUP BY h.at
          UNION ALL SELECT at, weight FROM fill) AS found
    GROUP BY at
    ORDER BY weight DESC FETCH FIRST %(ranked)s ROWS WITH TIES
), candidate AS MATERIALIZED (
    -- setweight makes a copy in memory: each ts_rank would fetch the stored one anew.
    SELECT c.chunk_id, c.document_id, c.index, setweight(c.terms, 'D') AS terms,
           %(k1)s * (1 - %(b)s + %(b)s * c.term_count / (SELECT mean FROM total)) AS norm
    FROM likely l JOIN chunks c ON c.ctid = l.at
), best AS MATERIALIZED (
    -- Written so that ts_rank stands once: wherever it stood it would be worked out anew. Without the
    -- term the number of times is 0, which as null adds nothing.
    SELECT chunk_id, document_id, index,
           (SELECT sum(w.share / (1 + k.norm / nullif(round(
                       1 / (1.6449340668482264 * greatest(1 - ts_rank('{{1, 1, 1, 1}}', k.terms, w.term)::float8, 0.002))
                       - 0.5), 0)))
            FROM weighted w) AS score
    FROM candidate k
)
SELECT c.chunk_id, c.document_id, c.index, c.score
FROM (SELECT * FROM best WHERE score > 0 ORDER BY score DESC FETCH FIRST %(top_k)s ROWS WITH TIES) AS c {place}
ORDER BY c.score DESC, place.uri, c.index, place.since, c.document_id
LIMIT %(top_k)s
