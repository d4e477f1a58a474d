"""Documents of a base as the application has them: uploaded, waiting, failed or ready; read and edited.

A document that was added on the command line is one of them: it is ready, and has no original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from psycopg.rows import dict_row

from ragstone.address import is_web
from ragstone.errors import Conflict, InputError, NotFound
from ragstone.kb import audit, catalog, jobs
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.kb.uploads import checked_category, tidy_name
from ragstone.metadata import MetadataValue, checked, storable
from ragstone.postgres.pool import Connection, Database
from ragstone.store.encoding import json_metadata, read_metadata, read_remarks
from ragstone.types import MEMBER_MARK, HeadingSpan, PageSpan, Remark

FileStatus: TypeAlias = Literal["pending", "processing", "ready", "failed"]
FileSort: TypeAlias = Literal["name", "created", "updated", "size", "accesses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a file, or a member of a container, could not be read: a message key with its values."""

    code: str
    values: Mapping[str, Any]
    uri: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The job under way: `share` of `stage` is done; a failed attempt waits until `run_after`."""

    state: Literal["queued", "running"]
    stage: str
    share: float
    attempts: int
    run_after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A document without its text. `title`, `chunks` and `pages` are what a search sees of it now.

    `searchable` is whether any version of it is; `own_metadata` is what people said,
    `metadata` also what the file says. `failures` are members that could not be read.
    """

    document_id: str
    base_id: str
    uri: str
    name: str
    title: str
    category: str
    media_type: str
    size: int
    blob_hash: str | None
    version: int
    status: FileStatus
    error: Failure | None
    failures: tuple[Failure, ...]
    progress: Progress | None
    own_metadata: Mapping[str, MetadataValue]
    metadata: Mapping[str, MetadataValue]
    accesses: int
    chunks: int
    pages: int
    warnings: tuple[Remark, ...]
    searchable: bool
    created_at: datetime
    updated_at: datetime

    @property
    def container_uri(self) -> str | None:
        """Of a member of an archive or mail: what it was unpacked from."""
        container, mark, _ = self.uri.rpartition(MEMBER_MARK)
        return container if mark else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """Characters `start` to `end` of a document's text, of `characters` in all, and its structure."""

    text: str
    start: int
    end: int
    characters: int
    pages: tuple[PageSpan, ...]
    headings: tuple[HeadingSpan, ...]


async def listing(
    database: Database,
    caller: Caller,
    base_id: str,
    *,
    limit: int = 50,
    offset: int = 0,
    sort: FileSort = "created",
    descending: bool = True,
    search: str | None = None,
    category: str | None = None,
    statuses: Sequence[FileStatus] | None = None,
) -> tuple[list[FileInfo], int]:
    """A page of the documents of a base, and how many there are in all.

    `search` is looked for in names and titles; an empty `category` finds the uncategorised.

    Raises:
        BaseNotFound: not there, or not for this caller.
    """
    await catalog.check(database, caller, base_id)
    values = _asked(base_id) | {
        "limit": limit,
        "offset": offset,
        "sort": sort,
        "descending": descending,
        "search": search or None,
        "category": category,
        "statuses": None if statuses is None else list(statuses),
    }
    async with database.connection() as connection:
        return await _listed(connection, values)


async def one(database: Database, caller: Caller, document_id: str) -> FileInfo:
    """Raises NotFound: not there, or not for this caller."""
    async with database.connection() as connection:
        return await _one(connection, caller, document_id)


async def _one(connection: Connection, caller: Caller, document_id: str) -> FileInfo:
    if storable(document_id):
        values = {"document_id": document_id}
        row = await (await connection.execute(QUERIES["base_of_document"], values)).fetchone()
        if row is not None and caller.sees(row[0]):
            found, _ = await _listed(connection, _asked(row[0]) | {"document_ids": [document_id]})
            if found:
                return found[0]
    raise NotFound("file.not_found", document_id=document_id)


def _asked(base_id: str) -> dict[str, object]:
    return {
        "base_id": base_id,
        "document_ids": None,
        "limit": 1,
        "offset": 0,
        "sort": "created",
        "descending": True,
        "search": None,
        "category": None,
        "statuses": None,
    }


async def _listed(connection: Connection, values: Mapping[str, object]) -> tuple[list[FileInfo], int]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        rows = await (await cursor.execute(QUERIES["list_files"], values)).fetchall()
    found = [_info(row) for row in rows if row["document_id"] is not None]
    return found, rows[0]["total"]


def _info(row: Mapping[str, Any]) -> FileInfo:
    code = row["error_code"]
    made: dict[str, Any] = {
        "error": None if code is None else Failure(code=code, values=row["error_values"] or {}),
        "failures": tuple(Failure(**item) for item in row["failures"]),
        "progress": _progress(row),
        "own_metadata": read_metadata(row["own_metadata"]),
        "metadata": read_metadata(row["metadata"]),
        "warnings": read_remarks(row["warnings"]),
    }
    plain = {item.name: row[item.name] for item in fields(FileInfo) if item.name not in made}
    return FileInfo(**plain, **made)


def _progress(row: Mapping[str, Any]) -> Progress | None:
    if row["job_state"] is None:
        return None
    return Progress(
        state=row["job_state"],
        stage=row["stage"],
        share=row["progress"],
        attempts=row["attempts"],
        run_after=row["run_after"],
    )


async def names(database: Database, documents: Mapping[str, str]) -> dict[str, str]:
    """Document id -> the name that people know it by, for documents id -> uri.

    That is the name of the uploaded file, else the last part of the address.
    """
    found = {document_id: _last_part(uri) for document_id, uri in documents.items()}
    async with database.connection() as connection:
        rows = await connection.execute(QUERIES["file_names"], {"document_ids": list(found)})
        found |= {document_id: name for document_id, name in await rows.fetchall() if name}
    return found


def _last_part(uri: str) -> str:
    path = urlsplit(uri).path if is_web(uri) or uri.startswith("file:") else uri
    return unquote(path.rstrip("/").rpartition("/")[2]) or uri


async def text(database: Database, caller: Caller, document_id: str, *, start: int, length: int) -> FileText:
    """A stretch of the text that a search sees; counts an access.

    Raises:
        NotFound: not there or not for this caller, or never read.
    """
    info = await one(database, caller, document_id)
    values = {"document_id": document_id, "start": start, "length": length}
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = await (await cursor.execute(QUERIES["file_text"], values)).fetchone()
        if row is None:
            raise NotFound("file.not_read", name=info.name, status=info.status)
        await _count_access(connection, document_id)
    pages = cast("list[tuple[int, int, int]]", row["pages"])
    headings = cast("list[tuple[list[str], int, int]]", row["headings"])
    return FileText(
        text=row["text"],
        start=min(start, row["characters"]),
        end=min(start, row["characters"]) + len(row["text"]),
        characters=row["characters"],
        pages=tuple(PageSpan(number=number, start=first, end=last) for number, first, last in pages),
        headings=tuple(HeadingSpan(path=tuple(path), start=a, end=b) for path, a, b in headings),
    )


async def opened(database: Database, caller: Caller, document_id: str) -> FileInfo:
    """`one`, which counts as an access."""
    async with database.connection() as connection:
        info = await _one(connection, caller, document_id)
        await _count_access(connection, document_id)
    return info


async def _count_access(connection: Connection, document_id: str) -> None:
    await _locked(connection, document_id)
    await connection.execute(QUERIES["count_access"], {"document_id": document_id})


async def _locked(connection: Connection, document_id: str) -> str | None:
    """The status of a file, which nobody else changes before the transaction ends; None: it is gone.

    A document that has no row of a file gets one.
    """
    values = {"document_id": document_id}
    async with connection.cursor(row_factory=dict_row) as cursor:
        row = await (await cursor.execute(QUERIES["lock_file"], values)).fetchone()
        if row is None:
            await cursor.execute(QUERIES["adopt_document"], values)
            row = await (await cursor.execute(QUERIES["lock_file"], values)).fetchone()
    return None if row is None else row["status"]


async def edit(
    database: Database,
    caller: Caller,
    document_id: str,
    *,
    name: str | None = None,
    category: str | None = None,
    metadata: Mapping[str, object] | None = None,
) -> FileInfo:
    """Change what is given. Metadata takes the place of what people said before, and filters see it at once.

    A job that may have read the metadata before begins anew.

    Raises:
        Forbidden, NotFound: not for this caller, or not there.
        InputError, InvalidMetadata: a value that cannot be kept.
    """
    caller.require("editor")
    if name is not None and tidy_name(name) != name:
        raise InputError("file.name", name=repr(name)[:80])
    values: dict[str, object] = {
        "document_id": document_id,
        "name": name,
        "category": None if category is None else checked_category(category),
        "metadata": None if metadata is None else json_metadata(checked(metadata)),
    }
    async with database.transaction() as connection:
        await _one(connection, caller, document_id)
        await _locked(connection, document_id)
        # As another edit, which was waited for, has left it.
        before = await _one(connection, caller, document_id)
        await connection.execute(QUERIES["edit_file"], values)
        if metadata is not None:
            await jobs.restart(connection, document_id)
            old = values | {"before": list(before.own_metadata)}
            await connection.execute(QUERIES["edit_document_metadata"], old)
            await connection.execute(QUERIES["edit_chunk_metadata"], old)
        changed = [key for key in ("name", "category", "metadata") if values[key] is not None]
        await audit.record(
            connection,
            caller,
            "document.update",
            base_id=before.base_id,
            subject=document_id,
            detail={"changed": changed},
        )
        return await _one(connection, caller, document_id)


async def retry(database: Database, caller: Caller, document_id: str) -> FileInfo:
    """Queue a failed file again. Wake a worker afterwards.

    Raises:
        Forbidden, NotFound: not for this caller, or not there.
        Conflict: it has not failed.
    """
    caller.require("editor")
    async with database.transaction() as connection:
        info = await _one(connection, caller, document_id)
        if await _locked(connection, document_id) != "failed":
            raise Conflict("file.not_failed", name=info.name, status=info.status, base_id=info.base_id)
        await _queue_again(connection, caller, info.base_id, [document_id])
        return await _one(connection, caller, document_id)


async def retry_failed(database: Database, caller: Caller, base_id: str) -> list[str]:
    """Queue every failed file of a base again; their ids. Wake workers afterwards.

    Raises:
        Forbidden, BaseNotFound: not for this caller, or not there.
    """
    caller.require("editor")
    await catalog.check(database, caller, base_id)
    async with database.transaction() as connection:
        rows = await (await connection.execute(QUERIES["failed_files"], {"base_id": base_id})).fetchall()
        document_ids = [cast(str, row[0]) for row in rows]
        await _queue_again(connection, caller, base_id, document_ids)
    return document_ids


async def _queue_again(
    connection: Connection, caller: Caller, base_id: str, document_ids: Sequence[str]
) -> None:
    await jobs.enqueue_index(connection, document_ids)
    await audit.record_each(connection, caller, "document.retry", document_ids, base_id=base_id)
