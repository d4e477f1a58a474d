"""A base made equal to a source: what is new or changed is read, what is gone is deleted.

Only documents that belong to the source are touched (`loading.Owned`), so a base may hold
several. Deletion comes last, when everything new is stored, and after a second look at the
source: what either look has seen stays, and so does what could not be looked at.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ragstone.errors import InputError
from ragstone.ingest import IngestEvent, IngestPipeline, IngestResult
from ragstone.kb.documents import DocumentInfo
from ragstone.kb.loading import Loading, Owned
from ragstone.protocols import Loaded
from ragstone.types import MEMBER_MARK, DeletionReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a sync did; after a dry run, what it would do.

    `gone` are the uris of documents that left with their file or container, `deleted` the
    rows that went with them (none after a dry run), `chunks_deleted` their chunks and those
    of earlier versions. `outside` counts files that a link leads to out of the source.
    """

    ingest: IngestResult
    added: int
    updated: int
    gone: tuple[str, ...]
    deleted: DeletionReport
    chunks_deleted: int
    outside: int
    dry_run: bool


async def synced(
    source: str,
    *,
    loading: Loading,
    pipeline: IngestPipeline,
    base_id: str,
    stored: Sequence[DocumentInfo],
    delete: Callable[[Sequence[str]], Awaitable[DeletionReport]],
    dry_run: bool,
    allow_empty: bool,
    on_event: Callable[[IngestEvent], None] | None,
) -> SyncResult:
    """Make the base equal to `source`; `stored` are the documents it holds now; `delete` takes some out.

    Raises:
        InputError: the source is empty while the base holds documents of it: an unmounted
            disk must not empty a base. SourceNotFound: it is not there.
    """
    known = {info.uri: info for info in stored}
    first = await _looked_at(source, loading, known, allow_empty)
    run = _Seen(first)
    async with aclosing(run.blobs(loading(source))) as blobs:
        ingest = await pipeline.run(blobs, base_id=base_id, on_event=on_event, dry_run=dry_run)
    # Deleted is what neither the run nor a second look has seen: a long run may have missed
    # a file that was moved, and a disk may have gone.
    last = await _looked_at(source, loading, known, allow_empty)
    gone = [
        info
        for info in stored
        if first.owns(info.uri) and not (first.holds(info.uri) or last.holds(info.uri) or run.saw(info.uri))
    ]
    deleted = ingest.deleted
    if gone and not dry_run:
        deleted += await delete([info.document_id for info in gone])
    ready = [file.uri for file in ingest.files if file.status == "ready"]
    left = [*(info.uri for info in gone), *ingest.gone]
    return SyncResult(
        ingest=ingest,
        added=sum(uri not in known for uri in ready),
        updated=sum(uri in known for uri in ready),
        gone=tuple(sorted(left)),
        deleted=deleted,
        chunks_deleted=sum(known[uri].chunks for uri in (*left, *ready) if uri in known),
        outside=run.outside,
        dry_run=dry_run,
    )


class _Seen:
    """The uris that a run met; what lies outside the source is not handed on."""

    def __init__(self, owned: Owned) -> None:
        self._owned = owned
        self._uris: set[str] = set()
        self.outside = 0

    async def blobs(self, stream: AsyncGenerator[Loaded, None]) -> AsyncGenerator[Loaded, None]:
        async with aclosing(stream) as items:
            async for item in items:
                self._uris.add(item.uri)
                if self._owned.owns(item.uri) or item.uri in self._owned.kept:
                    yield item
                else:
                    self.outside += 1

    def saw(self, uri: str) -> bool:
        return uri.partition(MEMBER_MARK)[0] in self._uris


async def _looked_at(
    source: str, loading: Loading, known: Mapping[str, DocumentInfo], allow_empty: bool
) -> Owned:
    found = await loading.listing(source)
    if not allow_empty and not found.uris and not found.kept:
        count = sum(map(found.owns, known))
        if count:
            raise InputError("kb.sync_empty", source=source, count=count)
    return found
