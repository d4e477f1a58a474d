"""Rows of the application's statements as values, whole or page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from psycopg.rows import class_row

from ragstone.kb.bases import QUERIES
from ragstone.postgres.pool import Connection, Database

T = TypeVar("T")


async def read(connection: Connection, kind: type[T], name: str, values: Mapping[str, object]) -> list[T]:
    """The rows of a statement; its columns are the fields of `kind`."""
    async with connection.cursor(row_factory=class_row(kind)) as cursor:
        return await (await cursor.execute(QUERIES[name], values)).fetchall()


async def page(
    database: Database, kind: type[T], name: str, values: Mapping[str, object], *, limit: int, offset: int
) -> tuple[list[T], int]:
    """The rows of a statement that has `limit` and `offset`, and how many there are without them."""
    async with database.connection() as connection:
        found = await read(connection, kind, name, {**values, "limit": limit, "offset": offset})
        if len(found) < limit and (found or not offset):
            return found, offset + len(found)
        counting = QUERIES["count_rows"].format(listing=QUERIES[name])
        row = await (await connection.execute(counting, {**values, "limit": None, "offset": 0})).fetchone()
        assert row is not None
        return found, row[0]
