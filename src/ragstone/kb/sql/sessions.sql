-- name: insert_session
INSERT INTO sessions (session_id, key_id, title, every_base)
VALUES (%(session_id)s, %(key_id)s, %(title)s, %(every_base)s)

-- name: insert_session_bases
-- A base that was deleted since it was looked for is left out.
INSERT INTO session_bases (session_id, base_id, position)
SELECT %(session_id)s, base_id, position
FROM unnest(%(base_ids)s::text[]) WITH ORDINALITY AS given (base_id, position) JOIN bases USING (base_id)
FOR KEY SHARE OF bases

-- name: delete_session_bases
DELETE FROM session_bases WHERE session_id = %(session_id)s

-- name: list_sessions
-- `every`: the caller may see sessions of all keys.
SELECT s.session_id, s.title, s.pinned, s.every_base, s.created_at, s.updated_at,
       s.next_seq - 1 AS messages,
       ARRAY(SELECT base_id FROM session_bases b WHERE b.session_id = s.session_id ORDER BY position) AS base_ids
FROM sessions s
WHERE (%(every)s OR s.key_id = %(key_id)s)
  AND (%(search)s = '' OR position(lower(%(search)s) IN lower(s.title)) > 0)
ORDER BY s.pinned DESC, s.updated_at DESC, s.session_id
LIMIT %(limit)s OFFSET %(offset)s

-- name: one_session
SELECT s.session_id, s.title, s.pinned, s.every_base, s.created_at, s.updated_at,
       s.next_seq - 1 AS messages,
       ARRAY(SELECT base_id FROM session_bases b WHERE b.session_id = s.session_id ORDER BY position) AS base_ids
FROM sessions s
WHERE s.session_id = %(session_id)s AND (%(every)s OR s.key_id = %(key_id)s)

-- name: change_session
UPDATE sessions
SET title = coalesce(%(title)s, title), pinned = coalesce(%(pinned)s, pinned),
    every_base = coalesce(%(every_base)s, every_base), updated_at = now()
WHERE session_id = %(session_id)s AND (%(every)s OR key_id = %(key_id)s)

-- name: delete_session
DELETE FROM sessions
WHERE session_id = %(session_id)s AND (%(every)s OR key_id = %(key_id)s)

-- name: list_messages
-- The latest `limit` before `before`, oldest first.
SELECT * FROM (
    SELECT message_id, session_id, seq, role, content, status, reply_to, replaced_by, mode, answered,
           citations, sources, trace, degraded, audit, usage, error_code, feedback, feedback_text,
           created_at, finished_at
    FROM messages
    WHERE session_id = (SELECT s.session_id FROM sessions s
                        WHERE s.session_id = %(session_id)s AND (%(every)s OR s.key_id = %(key_id)s))
      AND (%(before)s::integer IS NULL OR seq < %(before)s)
    ORDER BY seq DESC
    LIMIT %(limit)s
) AS latest
ORDER BY seq

-- name: one_message
SELECT m.message_id, m.session_id, m.seq, m.role, m.content, m.status, m.reply_to, m.replaced_by, m.mode,
       m.answered, m.citations, m.sources, m.trace, m.degraded, m.audit, m.usage, m.error_code, m.feedback,
       m.feedback_text, m.created_at, m.finished_at
FROM messages m JOIN sessions s USING (session_id)
WHERE m.session_id = %(session_id)s AND m.message_id = %(message_id)s
  AND (%(every)s OR s.key_id = %(key_id)s)

-- name: set_feedback
UPDATE messages SET feedback = %(rating)s, feedback_text = %(text)s
WHERE message_id = %(message_id)s

-- name: list_feedback
SELECT m.message_id, m.session_id, m.feedback AS rating, m.feedback_text AS text, m.finished_at,
       q.content AS question, m.content AS answer, m.mode, m.answered
FROM messages m
JOIN sessions s USING (session_id)
LEFT JOIN messages q ON q.message_id = m.reply_to
WHERE (%(every)s OR s.key_id = %(key_id)s) AND m.feedback IS NOT NULL
  AND (%(rating)s::smallint IS NULL OR m.feedback = %(rating)s)
ORDER BY m.finished_at DESC, m.message_id
LIMIT %(limit)s OFFSET %(offset)s

-- name: bases_seen
-- `bases`: those that the caller may see; null for every one.
SELECT b.base_id, b.name, coalesce(d.settings, '{}') AS settings
FROM bases b LEFT JOIN base_details d USING (base_id)
WHERE %(bases)s::text[] IS NULL OR b.base_id = ANY (%(bases)s)
ORDER BY b.name
