"""Whether anything is left over or lost: rows, jobs, blobs and messages that belong to nothing.

Reads only. What it finds while uploads and deletions go on is looked at twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.rows import dict_row

from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App
from ragstone.kb.doctor import Check
from ragstone.postgres.pool import Database

_SHOWN = 3


async def deep_check(parts: App) -> list[Check]:
    """A failed check for each kind of thing that should not be; one that is fine when there is none.

    Raises:
        StoreError: the database or the blob store does not answer.
    """
    database = await parts.database()
    checks = [*await _rows(database), *await _blobs(parts, database)]
    if checks:
        return checks
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        counts = await (await cursor.execute(QUERIES["deep_counts"])).fetchone()
    return [Check(name="deep", status="ok", key="doctor.deep_fine", values=counts or {})]


async def _rows(database: Database) -> list[Check]:
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = await (await cursor.execute(QUERIES["deep_findings"])).fetchall()
    return [_finding(row["name"], row["count"], row["examples"]) for row in rows]


async def _blobs(parts: App, database: Database) -> list[Check]:
    """What the blob store has against what the tables say; each difference is looked at again."""
    blobs = await parts.blobs()
    stored = {blob_hash async for blob_hash in blobs.hashes()}
    strays = stored - await _hashes(database, "known_blobs")
    strays = [item for item in sorted(strays) if await blobs.size(item) is not None]
    strays = sorted(set(strays) - await _hashes(database, "known_blobs"))
    missing = await _hashes(database, "blobs_of_files") - stored
    missing = [item for item in sorted(missing) if await blobs.size(item) is None]
    missing = sorted(set(missing) & await _hashes(database, "blobs_of_files"))
    found = (("stray_blobs", strays), ("missing_blobs", missing))
    return [_finding(name, len(hashes), hashes) for name, hashes in found if hashes]


async def _hashes(database: Database, name: str) -> set[str]:
    async with database.connection() as connection:
        return {row[0] for row in await (await connection.execute(QUERIES[name])).fetchall()}


def _finding(name: str, count: int, examples: Iterable[str]) -> Check:
    values = {"count": count, "examples": ", ".join(list(examples)[:_SHOWN])}
    return Check(name=f"deep:{name}", status="failed", key="doctor.deep_" + name, values=values)
