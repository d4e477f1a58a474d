-- name: take_seqs
-- Locks the session: whoever else writes into it gets the numbers behind these.
UPDATE sessions SET next_seq = next_seq + %(count)s, updated_at = now()
WHERE session_id = %(session_id)s AND (%(every)s OR key_id = %(key_id)s)
RETURNING next_seq - %(count)s

-- name: insert_question
INSERT INTO messages (message_id, session_id, seq, role, content, status, finished_at)
VALUES (%(message_id)s, %(session_id)s, %(seq)s, 'user', %(content)s, 'complete', now())

-- name: insert_answer
INSERT INTO messages (message_id, session_id, seq, role, content, status, reply_to, alive_until)
VALUES (%(message_id)s, %(session_id)s, %(seq)s, 'assistant', '', 'streaming', %(reply_to)s,
        now() + %(lease)s * interval '1 second')

-- name: replace_answer
UPDATE messages SET replaced_by = %(new_id)s
WHERE message_id = %(message_id)s AND replaced_by IS NULL AND status <> 'streaming'

-- name: restore_answer
UPDATE messages SET replaced_by = NULL WHERE replaced_by = %(message_id)s

-- name: earlier_turns
-- Answered questions before `before`, the latest first.
SELECT q.content AS question, a.content AS answer, a.status
FROM messages q JOIN messages a ON a.reply_to = q.message_id
WHERE q.session_id = %(session_id)s AND q.role = 'user' AND q.seq < %(before)s
  AND a.status IN ('complete', 'partial') AND a.content <> '' AND a.replaced_by IS NULL
ORDER BY q.seq DESC, a.seq DESC
LIMIT %(limit)s

-- name: progress
UPDATE messages
SET content = %(content)s, mode = %(mode)s, sources = %(sources)s, source_documents = %(documents)s,
    alive_until = now() + %(lease)s * interval '1 second'
WHERE message_id = %(message_id)s AND status = 'streaming'
RETURNING stop

-- name: finish
UPDATE messages
SET content = %(content)s, status = %(status)s, mode = %(mode)s, answered = %(answered)s,
    citations = %(citations)s, sources = %(sources)s, source_documents = %(documents)s,
    trace = %(trace)s, degraded = %(degraded)s, audit = %(audit)s, usage = %(usage)s,
    error_code = %(error_code)s, alive_until = NULL, finished_at = now()
WHERE message_id = %(message_id)s

-- name: stop_message
UPDATE messages SET stop = true WHERE message_id = %(message_id)s AND status = 'streaming'

-- name: dead_messages
SELECT message_id, source_documents FROM messages
WHERE status = 'streaming' AND alive_until < now()
LIMIT 100

-- name: repair_messages
UPDATE messages
SET status = CASE WHEN content = '' THEN 'failed' ELSE 'partial' END,
    error_code = %(error_code)s, alive_until = NULL, finished_at = now()
WHERE message_id = ANY (%(message_ids)s) AND status = 'streaming' AND alive_until < now()

-- name: insert_asked
INSERT INTO questions (key_id, status, answered, mode, first_ms, total_ms)
VALUES (%(key_id)s, %(status)s, %(answered)s, %(mode)s, %(first_ms)s, %(total_ms)s)
RETURNING question_id

-- name: insert_asked_bases
-- A base that was deleted meanwhile is left out.
INSERT INTO question_bases (question_id, base_id)
SELECT %(question_id)s, base_id FROM bases WHERE base_id = ANY (%(base_ids)s)
