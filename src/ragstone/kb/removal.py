"""Deleting documents and bases with all that belongs to them, in the library's tables and the application's.

Nothing that runs brings a deleted document back: its job goes in the same transaction, and
what a worker writes is guarded by its job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from psycopg.errors import ForeignKeyViolation

from ragstone.errors import BaseNotFound, Conflict, StoreUnavailable
from ragstone.kb import audit, catalog, jobs, orphans
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.kb.redaction import redact
from ragstone.metadata import storable
from ragstone.postgres.pool import Connection, Database
from ragstone.store import deletion
from ragstone.store.deletion import Proof
from ragstone.types import DeletionReport

if TYPE_CHECKING:
    from ragstone.kb.bootstrap import App

TABLES = ("files", "jobs", "messages", "blobs")
"""Tables of the application that a report names where a deletion changed them."""
BATCH = 100
"""Documents that are deleted in one transaction."""
_TRIES = 5


async def remove(
    parts: App, caller: Caller, document_ids: Sequence[str], *, base_id: str | None = None
) -> DeletionReport:
    """Delete documents, of one base where it is given, with the members of containers.

    Ids that are not there, or not for this caller, are passed over. The report counts rows by
    table: of `messages` stored answers that quoted the documents, of `blobs` those that nothing
    else needs.

    Raises:
        Forbidden, BaseNotFound: not for this caller, or no such base.
        StoreUnavailable: the database did not answer, and what is not deleted stays whole; or the
            blob store did not: the documents are gone, and a sweep takes their originals.
    """
    caller.require("editor")
    if base_id is not None:
        await catalog.check(await parts.database(), caller, base_id)
    report = DeletionReport()
    wanted = [document_id for document_id in dict.fromkeys(document_ids) if storable(document_id)]
    for start in range(0, len(wanted), BATCH):
        report += await _remove(parts, caller, wanted[start : start + BATCH], base_id)
    return report


async def remove_base(parts: App, caller: Caller, base_id: str) -> DeletionReport:
    """Delete a base and every document in it. Uploads that come meanwhile are deleted too.

    Raises:
        Forbidden, BaseNotFound: not for this caller, or not there.
        Conflict: documents keep coming. StoreUnavailable: part of it may be gone; call it again.
    """
    caller.require("admin")
    caller.check_bases([base_id])
    database, report = await parts.database(), DeletionReport()
    for _ in range(_TRIES):
        while document_ids := await _some_documents(database, base_id):
            report += await _remove(parts, caller, document_ids, base_id)
        try:
            async with database.transaction() as connection:
                found = await connection.execute(QUERIES["delete_base"], {"base_id": base_id})
                if not found.rowcount:
                    raise BaseNotFound("access.base", base_id=base_id)
                await audit.record(connection, caller, "base.delete", base_id=base_id, subject=base_id)
        except ForeignKeyViolation:
            continue
        return report
    raise Conflict("base.restless", base_id=base_id)


SHORTEST_ID = 6


async def proof(parts: App, document_id: str) -> Proof:
    """What is left of a deleted document in the tables of the library and of the application.

    Of `blobs` those count that nothing names: which one was the document's is not on record. As
    where a document is named to be deleted, the first 6 characters of its id will do.

    Raises:
        NotFound: no deletion of this document is on record.
    """
    if len(document_id) >= SHORTEST_ID and storable(document_id):
        async with (await parts.database()).connection() as connection:
            cursor = await connection.execute(QUERIES["deleted_documents"], {"beginning": document_id})
            rows = await cursor.fetchall()
        if len(rows) == 1:
            document_id = cast(str, rows[0][0])
    found = await (await parts.store()).proof_of_deletion(document_id)
    async with (await parts.database()).connection() as connection:
        rows = await _all(connection, "left_of_document", {"document_id": document_id})
    return replace(found, left={**found.left, **dict(zip(TABLES, rows[0], strict=True))})


async def _some_documents(database: Database, base_id: str) -> list[str]:
    async with database.connection() as connection:
        values = {"base_id": base_id, "limit": BATCH}
        rows = await (await connection.execute(QUERIES["some_documents"], values)).fetchall()
    return [cast(str, row[0]) for row in rows]


async def _remove(
    parts: App, caller: Caller, document_ids: Sequence[str], base_id: str | None
) -> DeletionReport:
    database = await parts.database()
    bases = None if caller.bases is None else sorted(caller.bases)
    values = {
        "bases": bases if base_id is None else [base_id],
        "document_ids": list(document_ids),
    }
    try:
        report, hashes = await _rows(database, caller, values)
    except StoreUnavailable:
        # Once more: another deletion, or a worker, may have held rows of ours while it waited for us.
        report, hashes = await _rows(database, caller, values)
    await (await parts.store()).tell_index()
    dropped = await orphans.release(database, await parts.blobs(), hashes) if hashes else 0
    return report + DeletionReport(rows={"blobs": dropped} if dropped else {})


async def _rows(
    database: Database, caller: Caller, values: Mapping[str, object]
) -> tuple[DeletionReport, list[str]]:
    """One transaction. Locks in the order of all others: file, job, rows of the library."""
    async with database.transaction() as connection:
        hashes = [row[0] for row in await _all(connection, "lock_files", values)]
        found = await _all(connection, "documents_to_delete", values)
        own = [cast(str, row[0]) for row in found]
        ended = await jobs.cancel_documents(connection, own)
        # After the jobs: members that one of them was writing are there, and no more will come.
        members = [row[0] for row in await _all(connection, "members_of", {"document_ids": own})]
        every = [*own, *members]
        report = await deletion.delete(connection, every)
        files = (await connection.execute(QUERIES["delete_files"], {"document_ids": every})).rowcount
        messages = await redact(connection, every)
        for base_id in {base_id for _, base_id in found}:
            gone = [document_id for document_id, of in found if of == base_id]
            await audit.record_each(connection, caller, "document.delete", gone, base_id=base_id)
    ours = {"files": files, "jobs": ended, "messages": messages}
    rows = {**report.rows, **{table: count for table, count in ours.items() if count}}
    return DeletionReport(document_ids=tuple(every), rows=rows), [item for item in hashes if item]


async def _all(connection: Connection, name: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(QUERIES[name], values)).fetchall()
