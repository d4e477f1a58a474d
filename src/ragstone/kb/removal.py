"""Deleting documents and bases with all that belongs to them, in the library's tables and the application's.

Nothing that runs brings a deleted document back: its job goes in the same transaction, and
what a worker writes is guarded by its job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from psycopg.errors import ForeignKeyViolation

from ragstone.errors import BaseNotFound, Conflict, StoreUnavailable
from ragstone.kb import audit, jobs, orphans
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.kb.redaction import redact
from ragstone.metadata import storable
from ragstone.postgres.pool import Connection, Database
from ragstone.store import deletion
from ragstone.store.postgres import PostgresStore
from ragstone.types import DeletionReport

if TYPE_CHECKING:
    from ragstone.kb.blobs import BlobStore

BATCH = 100
"""Documents that are deleted in one transaction."""
_TRIES = 5


async def remove(
    database: Database,
    store: PostgresStore,
    blobs: BlobStore,
    caller: Caller,
    base_id: str,
    document_ids: Sequence[str],
) -> DeletionReport:
    """Delete documents of a base, with the members of containers; ids that are not there are passed over.

    The report counts rows by table: those of the library, `files`, `jobs`, `messages` that quoted
    them, and `blobs` that nothing else needs.

    Raises:
        Forbidden, BaseNotFound: not for this caller.
        StoreUnavailable: the database did not answer, and nothing was changed, or the blob
            store did not: the documents are gone, and a sweep takes their originals.
    """
    caller.require("editor")
    caller.check_bases([base_id])
    report = DeletionReport()
    wanted = [document_id for document_id in dict.fromkeys(document_ids) if storable(document_id)]
    for start in range(0, len(wanted), BATCH):
        report += await _remove(database, store, blobs, caller, base_id, wanted[start : start + BATCH])
    return report


async def remove_base(
    database: Database, store: PostgresStore, blobs: BlobStore, caller: Caller, base_id: str
) -> DeletionReport:
    """Delete a base and every document in it. Uploads that come meanwhile are deleted too.

    Raises:
        Forbidden, BaseNotFound: not for this caller, or not there.
        Conflict: documents keep coming. StoreUnavailable: part of it may be gone; call it again.
    """
    caller.require("admin")
    caller.check_bases([base_id])
    report = DeletionReport()
    for _ in range(_TRIES):
        while document_ids := await _some_documents(database, base_id):
            report += await _remove(database, store, blobs, caller, base_id, document_ids)
        try:
            async with database.transaction() as connection:
                found = await connection.execute(QUERIES["delete_base"], {"base_id": base_id})
                if not found.rowcount:
                    raise BaseNotFound("access.base", base_id=base_id)
                await audit.record(connection, caller, "base.delete", base_id=base_id, subject=base_id)
        except ForeignKeyViolation:
            continue
        return report + DeletionReport(rows={"bases": 1})
    raise Conflict("base.restless", base_id=base_id)


async def _some_documents(database: Database, base_id: str) -> list[str]:
    async with database.connection() as connection:
        values = {"base_id": base_id, "limit": BATCH}
        rows = await (await connection.execute(QUERIES["some_documents"], values)).fetchall()
    return [cast(str, row[0]) for row in rows]


async def _remove(
    database: Database,
    store: PostgresStore,
    blobs: BlobStore,
    caller: Caller,
    base_id: str,
    document_ids: Sequence[str],
) -> DeletionReport:
    try:
        report, hashes = await _rows(database, caller, base_id, document_ids)
    except StoreUnavailable:
        # Once more: another deletion, or a worker, may have held rows of ours while it waited for us.
        report, hashes = await _rows(database, caller, base_id, document_ids)
    await store.tell_index()
    dropped = await orphans.release(database, blobs, hashes)
    return report + DeletionReport(rows={"blobs": dropped})


async def _rows(
    database: Database, caller: Caller, base_id: str, document_ids: Sequence[str]
) -> tuple[DeletionReport, list[str]]:
    """One transaction. Locks in the order of all others: file, job, rows of the library."""
    async with database.transaction() as connection:
        values = {"base_id": base_id, "document_ids": list(document_ids)}
        hashes = await _first_column(connection, "lock_files", values)
        own = await _first_column(connection, "documents_of_base", values)
        ended = await jobs.cancel_documents(connection, own)
        # After the jobs: members that one of them was writing are there, and no more will come.
        members = await _first_column(connection, "members_of", values | {"document_ids": own})
        every = [*own, *members]
        await connection.execute(QUERIES["lock_files"], values | {"document_ids": members})
        report = await deletion.delete(connection, every)
        gone = {"document_ids": every}
        files = (await connection.execute(QUERIES["delete_files"], gone)).rowcount
        messages = await redact(connection, every)
        rows = {**report.rows, "files": files, "jobs": ended, "messages": messages}
        for document_id in own:
            await audit.record(connection, caller, "document.delete", base_id=base_id, subject=document_id)
    return DeletionReport(document_ids=tuple(every), rows=rows), [item for item in hashes if item]


async def _first_column(connection: Connection, name: str, values: Mapping[str, object]) -> list[str]:
    rows = await (await connection.execute(QUERIES[name], values)).fetchall()
    return [cast(str, row[0]) for row in rows]
