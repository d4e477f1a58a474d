-- name: insert_audit
INSERT INTO audit (key_id, action, base_id, subject, detail)
SELECT %(key_id)s, %(action)s, %(base_id)s, subject, %(detail)s
FROM unnest(%(subjects)s::text[]) AS subject

-- name: list_audit
SELECT audit_id, at, key_id, action, base_id, subject, detail
FROM audit
WHERE (%(action)s::text IS NULL OR action = %(action)s)
  AND (%(base_id)s::text IS NULL OR base_id = %(base_id)s)
  AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY audit_id DESC
LIMIT %(limit)s OFFSET %(offset)s
