"""Originals of uploaded files: bytes under the SHA-256 of themselves, in a folder or an object store.

A name that a person gave is never part of where a blob lies.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread
import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, ObjectStore, from_url

from ragstone.errors import InvalidSetting, NotFound, RagstoneError, StoreFull, StoreUnavailable
from ragstone.kb.settings import masked_url

PIECE = 256 * 1024
"""Bytes of a blob that are read at once, at least."""
SCHEMES = ("s3", "gs", "az")
_HASH = re.compile(r"[0-9a-f]{64}")
_PART, _PARTS_AT_ONCE = 8 * 1024 * 1024, 4
_CLIENT: Any = {"allow_http": True, "connect_timeout": "5s", "timeout": "120s"}
_RETRY: Any = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}


class BlobStore:
    """Made by `BlobStore.open`. Safe to share among tasks of one event loop; nothing has to be closed.

    Every call raises StoreUnavailable when the place does not answer, InvalidSetting when it
    refuses our credentials or the bucket is not there, and StoreFull when the disk is full.
    """

    def __init__(self, store: ObjectStore, *, where: str, folder: Path | None = None) -> None:
        self._store, self._where, self._folder = store, where, folder

    @classmethod
    async def open(cls, url: str, *, folder: Path) -> BlobStore:
        """The store at `url`; `folder`, made when it is not there, where that is empty.

        `s3://bucket/prefix`, `gs://bucket/prefix` or `az://account/container/prefix`, with the
        provider's options behind it (`?endpoint=http://localhost:9000&region=eu-1`). Credentials
        come from the usual environment variables of the provider.

        Raises:
            InvalidSetting: an address that cannot be read, or a folder that cannot be made.
        """
        if not url:
            return await anyio.to_thread.run_sync(_in_folder, folder)
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.netloc:
            raise InvalidSetting("blob.url", url=masked_url(url), reason="s3:// | gs:// | az://")
        config: Any = dict(parse_qsl(parts.query))
        try:
            plain = parts._replace(query="", fragment="").geturl()
            store: Any = from_url(plain, config=config, client_options=_CLIENT, retry_config=_RETRY)
        except (BaseError, ValueError) as error:
            raise InvalidSetting("blob.url", url=masked_url(url), reason=_reason(error)) from error
        return cls(store, where=masked_url(plain))

    async def put(self, blob_hash: str, file: IO[bytes] | bytes) -> None:
        """Store bytes whose SHA-256 is `blob_hash`; twice is as once. A file is read from its start."""
        path, size = _path(blob_hash), await anyio.to_thread.run_sync(_rewound, file)
        with self._translated(size):
            with suppress(FileNotFoundError):
                if (await obstore.head_async(self._store, path))["size"] == size:
                    return
            try:
                await obstore.put_async(
                    self._store, path, file, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE
                )
            except FileNotFoundError as error:  # of an object store: the bucket
                raise InvalidSetting("blob.bucket", where=self._where) from error

    async def read(
        self, blob_hash: str, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Bytes `start` to `end` (exclusive) in pieces.

        Raises:
            NotFound: there is no such blob.
        """
        if end is not None and start >= end:
            return
        bounds: Any = {"offset": start} if end is None else (start, end)
        with self._translated():
            try:
                found = await obstore.get_async(self._store, _path(blob_hash), options={"range": bounds})
            except FileNotFoundError as error:
                raise NotFound("blob.missing", blob_hash=blob_hash, where=self._where) from error
            async for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    async def size(self, blob_hash: str) -> int | None:
        """How many bytes it has; None when it is not there."""
        with self._translated():
            try:
                return (await obstore.head_async(self._store, _path(blob_hash)))["size"]
            except FileNotFoundError:
                return None

    async def drop(self, blob_hash: str) -> None:
        """Remove a blob; one that is not there is passed over."""
        with self._translated(), suppress(FileNotFoundError):
            await obstore.delete_async(self._store, _path(blob_hash))

    async def hashes(self) -> AsyncGenerator[str, None]:
        """Every blob that is there, in no order; other objects of the place are passed over."""
        with self._translated():
            async for page in _listed(self._store):
                for item in page:
                    name = item["path"].rpartition("/")[2]
                    if _HASH.fullmatch(name) and item["path"] == _path(name):
                        yield name

    async def check(self) -> None:
        """Whether the place answers and lets us in."""
        with self._translated():
            try:
                await _listed(self._store, "none").collect_async()
            except FileNotFoundError as error:
                raise InvalidSetting("blob.bucket", where=self._where) from error

    @contextmanager
    def _translated(self, size: int = 0) -> Generator[None]:
        try:
            yield
        except RagstoneError:
            raise
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise InvalidSetting("blob.denied", where=self._where, reason=_reason(error)) from error
        except (BaseError, OSError) as error:
            # What went wrong is in the text of the error only; how full the disk is can be seen.
            if self._folder is not None and shutil.disk_usage(self._folder).free < size:
                raise StoreFull("blob.disk_full") from error
            raise StoreUnavailable("blob.unreachable", where=self._where, reason=_reason(error)) from error


def _in_folder(folder: Path) -> BlobStore:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return BlobStore(LocalStore(folder), where=str(folder), folder=folder)
    except OSError as error:
        raise InvalidSetting("blob.folder", folder=folder, reason=_reason(error)) from error


def _listed(store: ObjectStore, prefix: str | None = None) -> Any:
    return obstore.list(store, prefix)  # pyright: ignore[reportUnknownMemberType]


def _path(blob_hash: str) -> str:
    if not _HASH.fullmatch(blob_hash):
        raise ValueError(f"{blob_hash!r} is no SHA-256")
    return f"{blob_hash[:2]}/{blob_hash}"


def _rewound(file: IO[bytes] | bytes) -> int:
    if isinstance(file, bytes):
        return len(file)
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _reason(error: Exception) -> str:
    """The first line: behind it obstore puts its own structures."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
