"""Several statements in one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import AsyncCursor
from psycopg.rows import DictRow, dict_row

from ragstone.postgres.pool import Connection
from ragstone.store.statements import Statement


async def batch(connection: Connection, statements: Sequence[Statement]) -> list[list[DictRow]]:
    """Send all statements at once, then read the rows of each."""
    cursors: list[AsyncCursor[DictRow]] = []
    async with connection.pipeline():
        for statement in statements:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(statement.sql, statement.values, prepare=statement.once)
            cursors.append(cursor)
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
