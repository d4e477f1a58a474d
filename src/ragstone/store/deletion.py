"""Deleting documents with all that belongs to them, and the proof that nothing is left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from psycopg.sql import Identifier

from ragstone.errors import NotFound
from ragstone.postgres.pool import Connection
from ragstone.store.statements import QUERIES, Sql
from ragstone.types import DeletionReport

HOLDING: tuple[tuple[str, str], ...] = (
    ("vectors", "chunk_id"),
    ("chunks", "document_id"),
    ("generation_documents", "document_id"),
    ("documents", "document_id"),
)
"""Every table with rows of a document, and the column that says of which, in the order of deletion.

A new table with a `document_id` or a `chunk_id` belongs here or below; a test compares."""

WITHOUT_CONTENT = ("deletions", "outbox")
"""Tables that keep the ids of what is gone, and nothing else of it.

Of the outbox these leave when the index outside has dropped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is left of a deleted document: rows by table, all zero where the deletion is complete.

    `deleted` are the rows the deletion took away. `untold` changes of its chunks wait for an
    index outside, which may still hold their vectors.
    """

    document_id: str
    deleted_at: datetime
    deleted: Mapping[str, int]
    left: Mapping[str, int]
    untold: int

    @property
    def complete(self) -> bool:
        return not self.untold and not any(self.left.values())


async def delete(connection: Connection, document_ids: Sequence[str]) -> DeletionReport:
    """One transaction, a statement a table; leaves a record of ids and counts of each document."""
    # In the order of ids, so that two deletions never wait for each other.
    cursor = await connection.execute(QUERIES["lock_documents"], {"ids": list(document_ids)})
    found = [cast(str, row[0]) for row in await cursor.fetchall()]
    cursor = await connection.execute(QUERIES["chunks_of_documents"], {"ids": found})
    chunk_ids = {cast(str, row[0]): cast("list[str]", row[1]) for row in await cursor.fetchall()}
    owners = {chunk_id: document_id for document_id, ids in chunk_ids.items() for chunk_id in ids}
    counts = {table: Counter[str]() for table, _ in reversed(HOLDING)}
    for table, column in HOLDING:
        statement = QUERIES["delete_rows"].format(table=Identifier(table), column=Identifier(column))
        ids = list(owners) if column == "chunk_id" else found
        gone = [
            cast(str, row[0]) for row in await (await connection.execute(statement, {"ids": ids})).fetchall()
        ]
        counts[table].update(map(owners.__getitem__, gone) if column == "chunk_id" else gone)
    records = [
        {
            "document_id": document_id,
            "chunk_ids": chunk_ids[document_id],
            "rows": {table: counts[table][document_id] for table, _ in HOLDING},
        }
        for document_id in found
    ]
    await connection.execute(QUERIES["record_deletions"], {"records": json.dumps(records)})
    return report({table: held.total() for table, held in counts.items()}, found)


def report(rows: Mapping[str, int], document_ids: Sequence[str] = ()) -> DeletionReport:
    """Rows by table, with every table that may hold some."""
    return DeletionReport(
        document_ids=tuple(document_ids), rows={table: rows.get(table, 0) for table, _ in reversed(HOLDING)}
    )


async def proof(connection: Connection, document_id: str) -> Proof:
    """Look through every table for what was deleted.

    Raises:
        NotFound: no deletion of this document is on record.
    """
    cursor = await connection.execute(QUERIES["deletion"], {"document_id": document_id})
    record = await cursor.fetchone()
    if record is None:
        raise NotFound("store.not_deleted", document_id=document_id)
    chunk_ids, rows, deleted_at = record
    left: dict[str, int] = {}
    for table, column in reversed(HOLDING):
        statement = QUERIES["count_rows"].format(table=Identifier(table), column=Identifier(column))
        left[table] = await _count(
            connection, statement, chunk_ids if column == "chunk_id" else [document_id]
        )
    return Proof(
        document_id=document_id,
        deleted_at=deleted_at,
        deleted={table: rows.get(table, 0) for table, _ in reversed(HOLDING)},
        left=left,
        untold=await _count(connection, QUERIES["count_untold"], chunk_ids),
    )


async def _count(connection: Connection, statement: Sql, ids: Sequence[str]) -> int:
    row = await (await connection.execute(statement, {"ids": list(ids)})).fetchone()
    return 0 if row is None else cast(int, row[0])
