"""Blobs that nothing names any more: dropped at once after a deletion, and swept for what a crash left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ragstone.kb.bases import QUERIES
from ragstone.postgres.pool import Database

if TYPE_CHECKING:
    from ragstone.kb.blobs import BlobStore

_LOGGER = logging.getLogger(__name__)

SWEEP_S = 600.0


async def release(database: Database, blobs: BlobStore, hashes: Iterable[str]) -> int:
    """Drop those of these blobs that no file and no upload under way needs; how many."""
    return sum([await _release(database, blobs, blob_hash) for blob_hash in dict.fromkeys(hashes)])


async def sweep(database: Database, blobs: BlobStore) -> int:
    """Drop every blob that nothing needs; how many. Before, rows of files whose document is gone."""
    async with database.connection() as connection:
        await connection.execute(QUERIES["delete_lost_files"])
        rows = await (await connection.execute(QUERIES["loose_blobs"])).fetchall()
    dropped = await release(database, blobs, [row[0] for row in rows])
    if dropped:
        _LOGGER.info("originals that nothing needs dropped", extra={"blobs": dropped})
    return dropped


async def give_up(database: Database, blobs: BlobStore, hold: Mapping[str, object]) -> None:
    """End the hold (`hold_id`, `blob_hash`) of an upload that failed, and drop its bytes."""
    await _release(database, blobs, str(hold["blob_hash"]), hold_id=str(hold["hold_id"]))


async def _release(
    database: Database, blobs: BlobStore, blob_hash: str, *, hold_id: str | None = None
) -> bool:
    values = {"blob_hash": blob_hash, "hold_id": hold_id}
    async with database.transaction() as connection:
        # An upload of the same bytes waits here until they are gone, and stores them anew.
        await connection.execute(QUERIES["lock_blob"], values)
        await connection.execute(QUERIES["drop_expired_holds"], values)
        row = await (await connection.execute(QUERIES["blob_in_use"], values)).fetchone()
        if row is not None and row[0]:
            return False
        await connection.execute(QUERIES["delete_blob"], values)
        # Before the end of the transaction: what fails here is tried again by the next sweep.
        await blobs.drop(blob_hash)
    return True
