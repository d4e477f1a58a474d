"""The loaders of one run. Which of them reads a source is said by its scheme, here and nowhere else.

Another kind of source (an object store, a repository) is one more `Loader` and one more
case in `Loading.__call__` and `Loading.listing`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import anyio.to_thread

from ragstone.address import is_opened, is_web, shown, stored_url
from ragstone.errors import InputError
from ragstone.ingest import IngestPipeline
from ragstone.kb.settings import Settings
from ragstone.load import files
from ragstone.load.web import Cursor, WebLoader
from ragstone.protocols import Loaded, Store
from ragstone.types import MEMBER_MARK, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What a source holds now, and which uris belong to it.

    A uri belongs to a source when it is `root` or begins with `folder`, members with their
    container; with `glob` only if its path below `folder` fits. `kept` are beginnings of
    uris that could not be looked at.
    """

    uris: frozenset[str]
    root: str
    folder: str = ""
    glob: str | None = None
    kept: tuple[str, ...] = ()

    def owns(self, uri: str) -> bool:
        top = uri.partition(MEMBER_MARK)[0]
        if top == self.root:
            return True
        if not self.folder or not top.startswith(self.folder):
            return False
        below = unquote_to_bytes(top.removeprefix(self.folder)).decode("utf-8", "surrogateescape")
        return self.glob is None or files.fits_glob(below, self.glob)

    def holds(self, uri: str) -> bool:
        """Whether it is there, or may be."""
        top = uri.partition(MEMBER_MARK)[0]
        return top in self.uris or any(top == kept or top.startswith(f"{kept}/") for kept in self.kept)


class Loading:
    """A `Loader` for every kind of source; `aclose` ends its connections.

    With a pipeline, its store and the base it fills, pages are asked for only if they have changed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        glob: str | None = None,
        pipeline: IngestPipeline | None = None,
        store: Store | None = None,
        base_id: str = "",
    ) -> None:
        self._max_bytes = settings.max_file_mb * 1_000_000
        self._glob = glob
        self._pipeline, self._store, self._base_id = pipeline, store, base_id
        self._web = WebLoader(
            max_bytes=self._max_bytes,
            max_pages=settings.web_max_pages,
            allow_private=settings.web_allow_private,
            known=self._cursor,
        )

    async def __call__(self, source: str) -> AsyncGenerator[Loaded, None]:
        if is_web(source):
            stream: AsyncGenerator[Loaded, None] = self._web(source)
        else:
            _refuse_scheme(source)
            stream = files.files(source, glob=self._glob, max_bytes=self._max_bytes)
        async with aclosing(stream) as items:
            async for item in items:
                yield item

    async def all(self, sources: Sequence[str]) -> AsyncGenerator[Loaded, None]:
        """One source after the other."""
        for source in sources:
            async with aclosing(self(source)) as items:
                async for item in items:
                    yield item

    async def scan(self, sources: Sequence[str]) -> files.Scan:
        """How much there is to read; an address counts as one file, its bytes as none."""
        found = [await self._scan(source) for source in sources]
        return files.Scan(files=sum(item.files for item in found), bytes=sum(item.bytes for item in found))

    async def _scan(self, source: str) -> files.Scan:
        if is_web(source):
            return files.Scan(files=1, bytes=0)
        _refuse_scheme(source)
        return await files.scan(source, glob=self._glob)

    async def listing(self, source: str) -> Owned:
        """What the source holds, without reading it. Raises SourceNotFound."""
        if is_web(source):
            return await self._listing_of_web(source)
        _refuse_scheme(source)
        root = await anyio.to_thread.run_sync(files.source_uri, source)
        found = await files.listing(source, glob=self._glob)
        folder = root.rstrip("/") + "/"
        return Owned(uris=found.uris, root=root, folder=folder, glob=self._glob, kept=found.unreadable)

    async def _listing_of_web(self, source: str) -> Owned:
        found = await self._web.listing(source)
        root = stored_url(source)
        folder = root.rpartition("/")[0] + "/" if found.sitemap else ""
        kept = () if found.whole else (root, folder.rstrip("/"))
        return Owned(uris=found.uris, root=root, folder=folder, kept=kept)

    async def _cursor(self, uri: str) -> Cursor | None:
        if self._pipeline is None or self._store is None:
            return None
        document = await self._store.document(digest(self._base_id, uri))
        if document is None:
            return None
        content_hash = document.metadata.get("sha256")
        if not isinstance(content_hash, str) or document.revision != self._pipeline.revision(content_hash):
            return None  # it was read with other settings: the content is needed again
        return Cursor.of(document)

    async def aclose(self) -> None:
        await self._web.aclose()


def _refuse_scheme(source: str) -> None:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source) and not is_opened(source):
        raise InputError("load.scheme", source=shown(source))
