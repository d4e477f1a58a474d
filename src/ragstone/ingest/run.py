"""One run of ingestion: its queues and tasks.

Each step runs in tasks of its own, joined by bounded queues, so that reading the next
file, parsing, embedding and storing go on side by side while memory stays flat.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from itertools import islice, repeat, takewhile
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ragstone.errors import (
    ContentError,
    ContentRefused,
    InputError,
    InvalidMetadata,
    InvalidStage,
    NoText,
    TextTooLong,
)
from ragstone.ingest.family import LOCKED, Family
from ragstone.ingest.results import ChunksEmbedded, FileResult, IngestEvent, IngestResult, PagesRead
from ragstone.protocols import Cleaner, Loaded, Parser, Unpacker
from ragstone.trace import on_page
from ragstone.types import (
    MEMBER_MARK,
    Blob,
    Chunk,
    DeletionReport,
    Document,
    LoadFailure,
    Remark,
    Unchanged,
    Vectors,
    digest,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstone.ingest.pipeline import IngestPipeline

    _Pair: TypeAlias = tuple[NDArray[np.float32], NDArray[np.generic]]
    """A text's vector and the vectors of its tokens, of which there may be none."""

# Containers whose members are under way at once: so many blobs wait in memory for theirs.
MAX_OPEN = 4

# Chunks embedded at once: enough for batches of similar length, few enough that the
# progress moves every few seconds on a laptop.
EMBED_SLICE = 64


@dataclass(slots=True)
class _Prepared:
    """A document on its way to the store: split, with or without its vectors."""

    name: str
    document: Document
    chunks: list[Chunk]
    vectors: Vectors | None = None


class Run:
    """One call of `IngestPipeline.run`: its queues, counters and clock."""

    def __init__(
        self,
        pipeline: IngestPipeline,
        parse: Parser,
        *,
        base_id: str,
        known: Mapping[str, str],
        on_event: Callable[[IngestEvent], None] | None,
        dry_run: bool,
    ) -> None:
        self._pipeline = pipeline
        self._parse, self._split = parse, pipeline.splitter()
        self._base_id = base_id
        self._dry_run = dry_run
        self._planned: set[str] = set()
        # Of documents on their way to the store, which does not know them yet.
        self._fresh: dict[str, _Pair] = {}
        self._known = known
        self._known_uris = sorted(known)
        self._on_event = on_event
        self._files: list[FileResult] = []
        self._embedded = self._reused = self._tokens = 0
        self._seconds: dict[str, float] = {}
        self._gone: list[str] = []
        self._read_before: dict[str, Document] = {}
        self._deleted = DeletionReport()
        # By address, which a run may meet again: each time is a family of its own.
        self._families: dict[str, deque[Family]] = {}
        self._member_of: dict[str, deque[Family]] = {}

    def result(self) -> IngestResult:
        return IngestResult(
            files=tuple(self._files),
            embedded=self._embedded,
            reused=self._reused,
            tokens=self._tokens,
            seconds=dict(self._seconds),
            gone=tuple(self._gone),
            deleted=self._deleted,
        )

    async def go(self, blobs: AsyncIterator[Loaded | Document]) -> None:
        parsing = anyio.create_memory_object_stream[Blob](1)
        embedding = anyio.create_memory_object_stream[_Prepared](4)
        storing = anyio.create_memory_object_stream[_Prepared](4)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load, blobs, parsing[0])
            for _ in range(self._pipeline.parsers):
                tasks.start_soon(self._prepare, parsing[1].clone(), embedding[0].clone())
            tasks.start_soon(self._embed, embedding[1], storing[0])
            tasks.start_soon(self._store, storing[1])
            parsing[1].close()
            embedding[0].close()

    async def _load(
        self, blobs: AsyncIterator[Loaded | Document], parsing: MemoryObjectSendStream[Blob]
    ) -> None:
        room = anyio.Semaphore(MAX_OPEN)
        async with parsing, anyio.create_task_group() as families:
            while (item := await self._next(blobs)) is not None:
                if not isinstance(item, Blob):
                    self._finish(_unread(item))
                    continue
                if self._pipeline.unpack is None or self._is_stored(item):
                    await parsing.send(item)
                    continue
                await room.acquire()
                family = Family(item)
                await self._send_members(family, self._pipeline.unpack, parsing)
                families.start_soon(self._send_container, family, parsing, room)

    async def _next(self, blobs: AsyncIterator[Loaded | Document]) -> Loaded | None:
        with self._clock("load"):
            item = await anext(blobs, None)
        if not isinstance(item, Document):
            return item
        # Read already: its text stands for the content.
        self._read_before[item.uri] = item
        return Blob(uri=item.uri, name=item.title or item.uri, data=item.text.encode("utf-8", "replace"))

    async def _send_members(
        self, family: Family, unpack: Unpacker, parsing: MemoryObjectSendStream[Blob]
    ) -> None:
        try:
            async with aclosing(unpack(family.blob)) as members:
                async for member in members:
                    family.member(member.uri)
                    self._member_of.setdefault(member.uri, deque()).append(family)
                    if isinstance(member, LoadFailure):
                        self._finish(_unread(member))
                    else:
                        await parsing.send(member)
        except (ContentError, InputError) as error:
            family.whole = False
            if family.uris:  # else reading the container itself says why
                values = {name: v if isinstance(v, int) else str(v) for name, v in error.values.items()}
                family.warnings.append(Remark(key=error.key, values=values))
            family.ended(error)
        else:
            family.ended()

    async def _send_container(
        self, family: Family, parsing: MemoryObjectSendStream[Blob], room: anyio.Semaphore
    ) -> None:
        """The container itself, after its members: were it stored first, a run cut short would lose some."""
        await family.done.wait()
        if family.whole:
            prefix = family.blob.uri + MEMBER_MARK
            first = bisect_left(self._known_uris, prefix)
            members = takewhile(lambda uri: uri.startswith(prefix), islice(self._known_uris, first, None))
            gone = [uri for uri in members if uri not in family.uris]
            self._gone += gone
            if gone and not self._dry_run:
                document_ids = [digest(self._base_id, uri) for uri in gone]
                self._deleted += await self._pipeline.store.delete(document_ids)
        if family.failed:
            values: dict[str, str | int] = {"name": family.blob.name, "count": family.failed}
            family.warnings.append(Remark(key="ingest.members_failed", values=values))
        self._families.setdefault(family.blob.uri, deque()).append(family)
        await parsing.send(family.blob)
        room.release()

    def _is_stored(self, blob: Blob) -> bool:
        """Whether there is nothing to do: this content is stored, and a new try would change nothing."""
        known = self._known.get(blob.uri, "")
        if known.endswith(LOCKED) and not self._pipeline.unlocks:
            known = known.removesuffix(LOCKED)
        return known == self._pipeline.revision(blob.content_hash)

    async def _prepare(
        self, parsing: MemoryObjectReceiveStream[Blob], embedding: MemoryObjectSendStream[_Prepared]
    ) -> None:
        async with parsing, embedding:
            async for blob in parsing:
                if self._is_stored(blob):
                    self._finish(FileResult(uri=blob.uri, name=blob.name, status="unchanged"))
                    continue
                try:
                    prepared = await self._read(blob)
                except (ContentError, InputError) as error:
                    self._finish(FileResult(uri=blob.uri, name=blob.name, status="failed", error=error))
                else:
                    await embedding.send(prepared)

    async def _read(self, blob: Blob) -> _Prepared:
        def report(done: int, pages: int) -> None:
            self._emit(PagesRead(uri=blob.uri, name=blob.name, done=done, pages=pages))

        family = _taken(self._families, blob.uri)
        revision = self._pipeline.revision(blob.content_hash)
        with self._clock("parse"), on_page(report):
            parsed = self._read_before.pop(blob.uri, None) or await self._parse(blob)
        if family is not None:
            revision += family.mark
            parsed = replace(parsed, warnings=(*parsed.warnings, *family.warnings))
        parsed = replace(parsed, base_id=self._base_id, document_id="", revision=revision)
        with self._clock("split"):
            document = await self._cleaned(parsed)
            chunks = [] if document is None else await anyio.to_thread.run_sync(self._cut, document)
        if document is None or not chunks:
            raise NoText("ingest.no_text", name=blob.name)
        return _Prepared(blob.name, document, chunks)

    async def _cleaned(self, document: Document) -> Document | None:
        """The document after each cleaner: one that waits runs here, the others in a thread."""
        kept: Document | None = document
        for clean in self._pipeline.clean:
            if kept is None:
                return None
            if iscoroutinefunction(clean) or iscoroutinefunction(getattr(clean, "__call__", None)):  # noqa: B004
                kept = await cast("Awaitable[Document | None]", clean(kept))
            else:
                kept = await anyio.to_thread.run_sync(cast(Cleaner, clean), kept)
        return kept

    def _cut(self, document: Document) -> list[Chunk]:
        chunks = self._split(document)
        for transform in self._pipeline.transform:
            chunks = [kept for chunk in chunks if (kept := transform(chunk)) is not None]
        return chunks

    async def _embed(
        self, embedding: MemoryObjectReceiveStream[_Prepared], storing: MemoryObjectSendStream[_Prepared]
    ) -> None:
        async with embedding, storing:
            async for first in embedding:
                group = [first]
                # Small files share a batch when they are there; none is waited for.
                while sum(len(prepared.chunks) for prepared in group) < EMBED_SLICE:
                    try:
                        group.append(embedding.receive_nowait())
                    except (anyio.WouldBlock, anyio.EndOfStream):
                        break
                for prepared in await self._embed_group(group):
                    await storing.send(prepared)

    async def _embed_group(self, group: list[_Prepared]) -> list[_Prepared]:
        try:
            await self._fill_vectors(group)
        except (TextTooLong, ContentRefused) as error:
            if len(group) > 1:
                return [done for prepared in group for done in await self._embed_group([prepared])]
            document = group[0].document
            for chunk in group[0].chunks:
                self._fresh.pop(chunk.embedding_hash, None)
            self._finish(FileResult(uri=document.uri, name=group[0].name, status="failed", error=error))
            return []
        return group

    async def _fill_vectors(self, group: list[_Prepared]) -> None:
        """Give every chunk its vector: known ones from the store, each other text embedded once."""
        import numpy as np

        embedder, chunks = self._pipeline.embedder, [chunk for prepared in group for chunk in prepared.chunks]
        texts = {chunk.embedding_hash: chunk.embedding_text for chunk in chunks}
        vectors = {name: self._fresh[name] for name in texts.keys() & self._fresh.keys()}
        with self._clock("known"):
            vectors.update(await self._stored_vectors(list(texts.keys() - vectors.keys())))
        missing = sorted(
            texts.keys() - vectors.keys() - self._planned, key=lambda name: (len(texts[name]), name)
        )
        self._reused += len(texts) - len(missing)
        self._emit(ChunksEmbedded(chunks=len(texts) - len(missing), reused=len(texts) - len(missing)))
        if self._dry_run:
            await self._plan({name: texts[name] for name in missing})
            return
        for start in range(0, len(missing), EMBED_SLICE):
            hashes = missing[start : start + EMBED_SLICE]
            with self._clock("embed"):
                embedded = await embedder.embed_documents([texts[name] for name in hashes])
            found = dict(zip(hashes, _paired(embedded), strict=True))
            vectors.update(found)
            self._fresh.update(found)
            self._embedded += len(hashes)
            self._tokens += embedded.tokens
            self._emit(ChunksEmbedded(chunks=len(hashes), reused=0))
        for prepared in group:
            rows = [vectors[chunk.embedding_hash] for chunk in prepared.chunks]
            tokens = [held for _, held in rows]
            prepared.vectors = Vectors(
                model=embedder.identity,
                values=np.stack([vector for vector, _ in rows]).astype(np.float32),
                token_vectors=tokens if any(map(len, tokens)) else (),
            )

    async def _stored_vectors(self, hashes: Sequence[str]) -> dict[str, _Pair]:
        import numpy as np

        store, model = self._pipeline.store, self._pipeline.embedder.identity
        known = await store.known_vectors(model, hashes)
        tokens = await store.token_vectors(model, list(known))
        none = np.empty((0, 0), np.uint8)
        return {name: (vector, tokens.get(name, none)) for name, vector in known.items()}

    async def _plan(self, texts: Mapping[str, str]) -> None:
        """Count what a real run would embed; once embedded it would be known."""
        count = self._pipeline.embedder.tokenizer.count
        self._planned.update(texts)
        self._embedded += len(texts)
        self._tokens += await anyio.to_thread.run_sync(lambda: sum(map(count, texts.values())))
        self._emit(ChunksEmbedded(chunks=len(texts), reused=0))

    async def _store(self, storing: MemoryObjectReceiveStream[_Prepared]) -> None:
        async with storing:
            async for prepared in storing:
                try:
                    result = await self._stored(prepared)
                except (ContentError, InvalidMetadata, InvalidStage) as error:
                    # About this document alone, such as an address too long for the store.
                    uri = prepared.document.uri
                    result = FileResult(uri=uri, name=prepared.name, status="failed", error=error)
                for chunk in prepared.chunks:
                    self._fresh.pop(chunk.embedding_hash, None)
                self._finish(result)

    async def _stored(self, prepared: _Prepared) -> FileResult:
        document = prepared.document
        written = self._known.get(document.uri) != document.revision
        if not self._dry_run:
            assert prepared.vectors is not None  # set by _embed
            with self._clock("store"):
                written = await self._pipeline.store.replace(document, prepared.chunks, prepared.vectors)
        return FileResult(
            uri=document.uri,
            name=prepared.name,
            status="ready" if written else "unchanged",
            document_id=document.document_id,
            chunks=len(prepared.chunks) if written else 0,
            warnings=document.warnings,
        )

    def _finish(self, file: FileResult) -> None:
        self._files.append(file)
        self._emit(file)
        if family := _taken(self._member_of, file.uri):
            family.failed += file.status == "failed"
            family.ended(file.error)

    def _emit(self, event: IngestEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    @contextmanager
    def _clock(self, stage: str) -> Generator[None, None, None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - started


def _taken(families: dict[str, deque[Family]], uri: str) -> Family | None:
    """The first family of this address, taken out; None where there is none."""
    waiting = families.get(uri)
    if not waiting:
        return None
    family = waiting.popleft()
    if not waiting:
        del families[uri]
    return family


def _paired(vectors: Vectors) -> Iterable[_Pair]:
    import numpy as np

    if len(vectors.token_vectors):
        return zip(vectors.values, vectors.token_vectors, strict=True)
    return zip(vectors.values, repeat(np.empty((0, 0), np.uint8)))


def _unread(item: LoadFailure | Unchanged) -> FileResult:
    if isinstance(item, Unchanged):
        return FileResult(uri=item.uri, name=item.name, status="unchanged")
    return FileResult(uri=item.uri, name=item.name, status="failed", error=item.error)
