"""Uploads: bytes become a blob, a row of `files` and a job, or nothing at all.

Without a source uri a file is its content: the same bytes in the same base are one
document, whoever uploads them at the same moment.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import tempfile
import unicodedata
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote

import anyio
import anyio.to_thread
from psycopg.errors import ForeignKeyViolation
from psycopg.rows import dict_row

from ragstone.address import is_opened, is_web, request_url, shown, stored_url
from ragstone.errors import (
    BaseNotFound,
    Conflict,
    ContentTooLarge,
    InputError,
    RagstoneError,
    StoreFull,
    StoreUnavailable,
)
from ragstone.kb import audit, jobs, orphans
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.metadata import MetadataValue, checked, storable
from ragstone.parse.sniff import HEAD, sniff
from ragstone.postgres.pool import Connection, Database
from ragstone.store.encoding import json_metadata
from ragstone.types import MEMBER_MARK, Blob, digest

if TYPE_CHECKING:
    from ragstone.kb.blobs import BlobStore

Outcome: TypeAlias = Literal["created", "duplicate", "queued_again", "new_version"]
"""`queued_again`: a duplicate whose reading had failed. `new_version`: other bytes under a known uri."""

MAX_NAME_BYTES = 255
MAX_CATEGORY = 64
MAX_URI_BYTES = 2_000
HOLD_S = 900.0
"""How long bytes may wait in the blob store for the row that names them."""
_IN_MEMORY = 1_000_000
_TRIES = 5
_CONTENT_URI = "sha256:"
# Signs that turn the direction of writing: `fdp.exe` would be shown as `exe.pdf`.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an upload goes and what is said with it. An empty `uri` is the content's own."""

    base_id: str
    uri: str = ""
    category: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    keep_both: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """`job_id` is that of the job that was queued: wake a worker for it."""

    document_id: str
    outcome: Outcome
    job_id: str | None = None


class Spool:
    """A file on its way in: in memory while it is small, then in `folder`, where it has no name.

    Raises, from `write`: ContentTooLarge beyond `limit` bytes, StoreFull without room.
    """

    def __init__(self, folder: Path, *, name: str, limit: int) -> None:
        self.name = tidy_name(name)
        self.size = 0
        self._folder, self._limit = folder, limit
        self._hash = hashlib.sha256()
        self._head = b""
        # Not on the path of a person's making, and gone with the process however that ends.
        self.file: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(folder))  # noqa: SIM115

    @property
    def head(self) -> bytes:
        return self._head

    @property
    def blob_hash(self) -> str:
        return self._hash.hexdigest()

    async def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._limit:
            raise ContentTooLarge("file.too_large", name=self.name, limit=self._limit)
        self._head += piece[: HEAD - len(self._head)]
        await anyio.to_thread.run_sync(self._write, piece)

    def _write(self, piece: bytes) -> None:
        self._hash.update(piece)
        try:
            if self.size > _IN_MEMORY:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.file.write(piece)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull("file.disk_full", name=self.name, folder=self._folder) from error
            raise

    def close(self) -> None:
        self.file.close()

    async def __aenter__(self) -> Spool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def tidy_name(name: str) -> str:
    """A file name as it is kept and shown: never a path, one line, at most 255 bytes."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    kept = "".join(
        " " if char.isspace() else char
        for char in name
        if (char not in _TURNING and unicodedata.category(char) not in ("Cc", "Cs")) or char in "\t\n\r"
    )
    kept = " ".join(kept.split())
    if kept in ("", ".", ".."):
        return "unnamed"
    stem, dot, suffix = kept.rpartition(".")
    if not dot or len(suffix.encode()) > 16:
        stem, suffix = kept, ""
    end = dot + suffix if suffix else ""
    return _cut(stem, MAX_NAME_BYTES - len(end.encode())) + end


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


def checked_category(name: str) -> str:
    """The category without outer spaces; InputError when it cannot be one."""
    name = name.strip()
    if len(name) > MAX_CATEGORY or (name and not (name.isprintable() and storable(name))):
        raise InputError("file.category", name=repr(name)[:80])
    return name


def checked_uri(uri: str) -> str:
    """A source uri as it is kept; addresses of the web lose passwords and keys. Raises InputError."""
    uri = uri.strip()
    if is_web(uri):
        try:
            uri = stored_url(uri)
        except ValueError as error:
            raise InputError("file.uri", uri=repr(uri)[:80]) from error
    wrong = (
        not is_opened(uri) or not uri.isprintable() or not storable(uri) or len(uri.encode()) > MAX_URI_BYTES
    )
    if wrong or uri.startswith(_CONTENT_URI) or MEMBER_MARK in uri:
        raise InputError("file.uri", uri=repr(uri)[:80])
    return uri


async def upload(
    database: Database, blobs: BlobStore, caller: Caller, spool: Spool, target: Target
) -> Uploaded:
    """Keep the file and queue its reading. Wake a worker afterwards.

    Raises:
        Forbidden, BaseNotFound: not for this caller. InputError: a uri, category or metadata
            that cannot be kept. UnsupportedContent, NoText: nothing reads such a file.
        StoreUnavailable, StoreFull: nothing was changed.
    """
    caller.require("editor")
    caller.check_bases([target.base_id])
    media_type = await anyio.to_thread.run_sync(sniff, spool.head, spool.name)
    uri = checked_uri(target.uri) if target.uri else _CONTENT_URI + spool.blob_hash
    if target.keep_both and not target.uri:
        uri = f"{uri}#{secrets.token_hex(4)}"
    values = _values(target, uri, spool.name) | {
        "blob_hash": spool.blob_hash,
        "size": spool.size,
        "media_type": media_type,
    }
    async with held(database, blobs, spool.blob_hash) as hold_id:
        await blobs.put(spool.blob_hash, spool.file)
        return await _entered(database, caller, values, hold_id)


async def add_address(database: Database, caller: Caller, url: str, target: Target) -> Uploaded:
    """Queue the reading of an address; its bytes are kept when they are there.

    One that is known is read again, unless it is waiting for that already.

    Raises:
        Forbidden, BaseNotFound: not for this caller. InputError: not an address of the web, or
            one with a secret in it.
    """
    caller.require("editor")
    caller.check_bases([target.base_id])
    try:
        uri = stored_url(url)
        if uri != request_url(url) or "@" in url.partition("//")[2].partition("/")[0]:
            raise ValueError(url)
    except ValueError as error:
        raise InputError("file.address", url=shown(url)) from error
    name = tidy_name(unquote(uri.partition("?")[0].rstrip("/").rpartition("/")[2]))
    values = _values(target, checked_uri(uri), name) | {"blob_hash": None, "size": 0, "media_type": ""}
    return await _entered(database, caller, values, None)


async def keep_original(
    database: Database, blobs: BlobStore, document_id: str, *, version: int, blob: Blob
) -> bool:
    """Keep what a job read at the address of a file; False when the file is gone or asked for anew."""
    values = {
        "document_id": document_id,
        "version": version,
        "blob_hash": blob.content_hash,
        "size": len(blob.data),
        "media_type": blob.media_type,
        "name": tidy_name(blob.name),
    }
    async with held(database, blobs, blob.content_hash) as hold_id:
        await blobs.put(blob.content_hash, blob.data)
        async with database.transaction() as connection:
            await release_hold(connection, hold_id, blob.name)
            await connection.execute(QUERIES["insert_blob"], values)
            return (await connection.execute(QUERIES["keep_original"], values)).rowcount > 0


@asynccontextmanager
async def held(database: Database, blobs: BlobStore, blob_hash: str) -> AsyncGenerator[str, None]:
    """Bytes under this hash stay, though no file names them yet; the id to release them by.

    What was not released when the block ends with an error, and is not in use, goes.
    """
    values = {"hold_id": secrets.token_hex(12), "blob_hash": blob_hash, "seconds": HOLD_S}
    async with database.transaction() as connection:
        await connection.execute(QUERIES["lock_blob_shared"], values)
        await connection.execute(QUERIES["hold_blob"], values)
    try:
        yield str(values["hold_id"])
    except BaseException:
        # Where this fails too the hold runs out, and a sweep does it.
        with anyio.move_on_after(10, shield=True), suppress(RagstoneError):
            await orphans.give_up(database, blobs, values)
        raise


def _values(target: Target, uri: str, name: str) -> dict[str, object]:
    metadata: Mapping[str, MetadataValue] = checked(target.metadata)
    return {
        "document_id": digest(target.base_id, uri),
        "base_id": target.base_id,
        "uri": uri,
        "name": name,
        "category": checked_category(target.category),
        "metadata": json_metadata(metadata),
    }


async def _entered(
    database: Database, caller: Caller, values: Mapping[str, Any], hold_id: str | None
) -> Uploaded:
    """File, job and audit in one transaction."""
    try:
        async with database.transaction() as connection:
            if hold_id is not None:
                await release_hold(connection, hold_id, values["name"])
                await connection.execute(QUERIES["insert_blob"], values)
            outcome = await _file(connection, values)
            job_id = None
            if outcome != "duplicate":
                (job_id,) = await jobs.enqueue_index(connection, [values["document_id"]])
            await audit.record(
                connection,
                caller,
                "document.upload",
                base_id=values["base_id"],
                subject=values["document_id"],
                detail={"name": values["name"], "outcome": outcome},
            )
    except ForeignKeyViolation as error:
        raise BaseNotFound("access.base", base_id=values["base_id"]) from error
    return Uploaded(document_id=values["document_id"], outcome=outcome, job_id=job_id)


async def release_hold(connection: Connection, hold_id: str, name: str) -> None:
    """The row is made in this transaction. Raises StoreUnavailable when the hold has run out."""
    if not (await connection.execute(QUERIES["drop_hold"], {"hold_id": hold_id})).rowcount:
        raise StoreUnavailable("file.too_slow", name=name)


async def _file(connection: Connection, values: Mapping[str, Any]) -> Outcome:
    """The row, new or as it is there; it is locked until the transaction ends."""
    for _ in range(_TRIES):
        if (await connection.execute(QUERIES["insert_file"], values)).rowcount:
            return "created"
        async with connection.cursor(row_factory=dict_row) as cursor:
            row = await (await cursor.execute(QUERIES["lock_file"], values)).fetchone()
        if row is not None:  # else it was deleted between the two
            return await _known(connection, row, values)
    raise Conflict("file.restless", name=values["name"])


async def _known(connection: Connection, row: Mapping[str, Any], values: Mapping[str, Any]) -> Outcome:
    if values["blob_hash"] is None:
        if row["status"] in ("pending", "processing"):
            return "duplicate"
    elif row["blob_hash"] == values["blob_hash"]:
        if row["status"] != "failed":
            return "duplicate"
        return "queued_again"
    await connection.execute(QUERIES["new_version"], values)
    return "new_version"
