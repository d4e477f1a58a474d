-- name: insert_base
INSERT INTO bases (base_id, name) VALUES (%(base_id)s, %(name)s)
ON CONFLICT (name) DO NOTHING

-- name: base_ids
SELECT base_id, name FROM bases ORDER BY name

-- name: list_bases
SELECT b.base_id, b.name, m.identity AS model, b.created_at, g.generation_id,
       count(h.document_id) AS documents,
       coalesce(sum(h.chunk_count), 0)::bigint AS chunks
FROM bases b
LEFT JOIN generations g ON g.base_id = b.base_id AND g.state = 'active'
LEFT JOIN models m USING (model_id)
LEFT JOIN generation_documents h USING (generation_id)
GROUP BY b.base_id, b.name, m.identity, b.created_at, g.generation_id
ORDER BY b.name

-- name: delete_base
DELETE FROM bases WHERE base_id = %(base_id)s
