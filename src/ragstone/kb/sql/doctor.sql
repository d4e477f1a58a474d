-- name: server_facts
SELECT current_setting('server_version') AS server,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector
