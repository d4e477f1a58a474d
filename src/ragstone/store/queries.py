"""The named blocks of SQL that the store runs."""

from __future__ import annotations

from importlib.resources import files

from ragstone.postgres.queries import Queries

QUERIES = Queries.load(files("ragstone.store") / "sql")
