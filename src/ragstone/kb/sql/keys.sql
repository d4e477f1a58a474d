-- name: insert_key
INSERT INTO keys (key_id, name, prefix, key_hash, role, bases, per_minute, expires_at)
VALUES (%(key_id)s, %(name)s, %(prefix)s, %(key_hash)s, %(role)s, %(bases)s, %(per_minute)s, %(expires_at)s)
RETURNING key_id, name, prefix, role, bases, per_minute, created_at, expires_at, revoked_at, last_used_at

-- name: list_keys
SELECT key_id, name, prefix, role, bases, per_minute, created_at, expires_at, revoked_at, last_used_at
FROM keys
ORDER BY created_at DESC, key_id
LIMIT %(limit)s OFFSET %(offset)s

-- name: any_key
SELECT EXISTS (SELECT FROM keys)

-- name: usable_key
SELECT EXISTS (
    SELECT FROM keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
)

-- name: revoke_key
UPDATE keys SET revoked_at = coalesce(revoked_at, now())
WHERE key_id = %(key_id)s
RETURNING key_id, name, prefix, role, bases, per_minute, created_at, expires_at, revoked_at, last_used_at

-- name: key_by_hash
SELECT key_id, role, bases, per_minute,
       revoked_at IS NOT NULL AS revoked,
       coalesce(expires_at <= now(), false) AS expired,
       last_used_at IS NULL OR last_used_at < now() - interval '1 minute' AS untold
FROM keys
WHERE key_hash = %(key_hash)s

-- name: touch_key
UPDATE keys SET last_used_at = now()
WHERE key_id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')

-- name: missing_bases
SELECT wanted.base_id
FROM unnest(%(base_ids)s::text[]) AS wanted (base_id)
WHERE NOT EXISTS (SELECT FROM bases b WHERE b.base_id = wanted.base_id)
