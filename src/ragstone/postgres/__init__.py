"""PostgreSQL: the embedded server, connections, migrations and named SQL.

server.py    finds, starts, shares and stops the embedded PostgreSQL
pool.py      `Database`: connections and transactions, errors in our own types
migrate.py   numbered migration files, one history
queries.py   named blocks of SQL from .sql files; nothing else builds SQL text
"""
