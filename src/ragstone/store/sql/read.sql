-- name: hit_columns
-- Of the document's pages those that touch the chunk, and where it has none, of its headings.
c.chunk_id, c.document_id, c.index, c.text, c.start_at, c.end_at, c.context, c.page,
c.headings::text AS headings, c.metadata::text AS metadata, c.parent_start, c.parent_end, c.enabled, c.base_id, d.uri, d.title,
d.media_type, c.rows::text AS rows,
jsonb_path_query_array(d.pages, 'strict $[*] ? (@[1] < $end && @[2] > $start)',
                       jsonb_build_object('start', c.start_at, 'end', c.end_at))::text AS pages,
CASE WHEN c.page IS NULL
     THEN jsonb_path_query_array(d.headings, 'strict $[*] ? (@[1] < $end && @[2] > $start)',
                                 jsonb_build_object('start', c.start_at, 'end', c.end_at))::text
     ELSE '[]' END AS stands_under

-- name: fetch
SELECT {columns}
FROM chunks c JOIN documents d USING (document_id)
WHERE c.chunk_id = ANY (%(chunk_ids)s)

-- name: neighbours
SELECT {columns}
FROM chunks c JOIN documents d USING (document_id)
WHERE c.chunk_id IN (
    (SELECT n.chunk_id FROM chunks n JOIN chunks m USING (document_id, generation_id)
     WHERE m.chunk_id = %(chunk_id)s AND n.index < m.index ORDER BY n.index DESC LIMIT %(n)s)
    UNION ALL
    (SELECT n.chunk_id FROM chunks n JOIN chunks m USING (document_id, generation_id)
     WHERE m.chunk_id = %(chunk_id)s AND n.index >= m.index ORDER BY n.index LIMIT %(n)s + 1)
)
ORDER BY c.index

-- name: document
SELECT document_id, base_id, uri, title, text, media_type, revision, pages, headings, metadata, warnings, boxes, rows
FROM documents WHERE document_id = %(document_id)s

-- name: documents_to_count
-- Of spreadsheets that were stored before their rows were.
SELECT document_id, media_type, text, headings FROM documents WHERE document_id = ANY (%(document_ids)s)

-- name: revisions
SELECT uri, revision FROM documents WHERE base_id = %(base_id)s

-- name: revisions_of
-- A document and its members, whose uris begin with its own and !/ (0 comes after /).
SELECT uri, revision FROM documents WHERE base_id = %(base_id)s AND uri = %(uri)s
UNION ALL
SELECT uri, revision FROM documents
WHERE base_id = %(base_id)s AND uri >= %(uri)s || '!/' AND uri < %(uri)s || '!0'

-- name: known_vectors
SELECT DISTINCT ON (v.embedding_hash) v.embedding_hash, v.embedding
FROM vectors v JOIN models m USING (model_id)
WHERE m.identity = %(identity)s AND v.embedding_hash = ANY (%(hashes)s)
ORDER BY v.embedding_hash

-- name: token_vectors
SELECT DISTINCT ON (v.embedding_hash) v.embedding_hash, v.tokens, m.dimension
FROM vectors v JOIN models m USING (model_id)
WHERE m.identity = %(identity)s AND v.embedding_hash = ANY (%(hashes)s) AND v.tokens IS NOT NULL
ORDER BY v.embedding_hash

-- name: tokens_of_chunks
SELECT chunk_id, tokens FROM vectors
WHERE chunk_id = ANY (%(chunk_ids)s) AND model_id = %(model_id)s AND tokens IS NOT NULL

-- name: count_chunks
SELECT count(*) FROM chunks c WHERE {scope}
