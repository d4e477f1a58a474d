"""Databases for tests, on a server that is already there."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier


@contextmanager
def temporary_database(conninfo: str) -> Generator[str]:
    """The conninfo of a new, empty database on the server of `conninfo`, dropped at the end.

    Blocks, so it belongs into a fixture that is not async. The role must be allowed to
    create databases.
    """
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name)))
    try:
        yield make_conninfo(conninfo, dbname=name)
    finally:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
