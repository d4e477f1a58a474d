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

-- name: count_vectors
SELECT count(*) FROM (
    SELECT FROM vectors v {join}
    WHERE v.model_id = {model_id} AND {scope}
    LIMIT %(limit)s
) AS seen

-- name: other_model
-- A base in the scope whose vectors are of another model.
SELECT b.name, m.identity
FROM generations g JOIN bases b USING (base_id) JOIN models m USING (model_id)
WHERE m.identity <> %(identity)s AND {scope}
  AND EXISTS (SELECT FROM generation_documents h
              WHERE h.generation_id = g.generation_id AND h.chunk_count > 0)
ORDER BY b.name
LIMIT 1

-- name: search_exact
WITH k AS MATERIALIZED (
    SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM vectors v {join}
    WHERE v.model_id = {model_id} AND {scope}
), nearest AS (
    -- The distance to a zero vector is NaN, which sorts behind every number.
    SELECT chunk_id, distance FROM k ORDER BY distance FETCH FIRST %(top_k)s ROWS WITH TIES
)
SELECT {columns}, n.distance
FROM nearest n JOIN chunks c USING (chunk_id) JOIN documents d USING (document_id)
ORDER BY n.distance, c.document_id, c.index
LIMIT %(top_k)s

-- name: walk_settings
-- For the search below and this transaction only: walk the graph in the order of distance, go on
-- until the filter has let enough through, and take no plan that sorts everything instead.
SELECT set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'strict_order', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true)

-- name: scan_settings
-- Back to the planner's own choice, for an exact scan after a walk.
SELECT set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true),
       set_config('enable_sort', 'on', true),
       set_config('enable_hashjoin', 'on', true),
       set_config('enable_mergejoin', 'on', true)

-- name: search_index
WITH nearest AS MATERIALIZED (
    SELECT v.chunk_id,
           v.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) AS distance
    FROM vectors v {join}
    WHERE v.model_id = {model_id} AND {scope}
    ORDER BY v.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension})
    LIMIT %(top_k)s
)
SELECT {columns}, n.distance
FROM nearest n JOIN chunks c USING (chunk_id) JOIN documents d USING (document_id)
ORDER BY n.distance, c.document_id, c.index

-- name: search_text
-- BM25 (k1, b as in the store in memory) over all chunks, as a share of the most that a chunk could
-- reach with these terms: 0 to 1. How often a chunk holds a term is read from ts_rank, which for one
-- term is the sum of 1 / n^2 over its places by pi^2 / 6. Candidates hold one of the rarest terms;
-- commoner terms join until they stand for enough rows of the scope.
WITH question AS (
    SELECT term::tsquery AS term FROM unnest(%(terms)s::text[]) AS term
), total AS (
    SELECT coalesce(sum(chunk_count), 0)::float8 AS n,
           greatest(coalesce(sum(term_count), 0)::float8 / greatest(sum(chunk_count), 1), 1) AS mean
    FROM generation_documents h WHERE {documents}
), frequency AS MATERIALIZED (
    SELECT q.term, f.everywhere, f.here
    FROM question q CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE {chunks}) AS everywhere, count(*) FILTER (WHERE {scope}) AS here
        FROM chunks c WHERE c.terms @@ q.term
    ) AS f
), weighted AS MATERIALIZED (
    SELECT term, idf, idf / sum(idf) OVER () AS share, here,
           sum(here) OVER (ORDER BY here, term::text ROWS UNBOUNDED PRECEDING) - here AS before
    FROM (SELECT term, here, ln(1 + (n - everywhere + 0.5) / (everywhere + 0.5)) AS idf
          FROM frequency, total) AS known
), candidate AS MATERIALIZED (
    -- The empty vector makes a copy in memory: each ts_rank would fetch the stored one anew.
    SELECT c.chunk_id, c.document_id, c.index, c.terms || ''::tsvector AS terms,
           %(k1)s * (1 - %(b)s + %(b)s * c.term_count / (SELECT mean FROM total)) AS norm
    FROM chunks c
    WHERE {scope}
      AND c.terms @@ (SELECT string_agg(term::text, ' | ')::tsquery FROM weighted
                      WHERE here > 0 AND before < %(candidates)s)
), best AS (
    SELECT chunk_id,
           (SELECT sum(w.share * held.times / (held.times + k.norm))
            FROM weighted w
            CROSS JOIN LATERAL (SELECT ts_rank('{{1, 1, 1, 1}}', k.terms, w.term)::float8 AS rank) AS found
            CROSS JOIN LATERAL (
                SELECT round(1 / (1.6449340668482264 * greatest(1 - found.rank, 0.002)) - 0.5) AS times
            ) AS held
            WHERE w.here > 0 AND found.rank > 0.1) AS score
    FROM candidate k
    ORDER BY score DESC, document_id, index
    LIMIT %(top_k)s
)
SELECT {columns}, b.score
FROM best b JOIN chunks c USING (chunk_id) JOIN documents d USING (document_id)
WHERE b.score > 0
ORDER BY b.score DESC, c.document_id, c.index
