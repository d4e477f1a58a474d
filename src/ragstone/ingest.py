"""The ingest path: load -> parse -> clean -> split -> embed -> store, overlapping.

Each step runs in tasks of its own, joined by bounded queues, so that reading the next
file, parsing, embedding and storing go on side by side while memory stays flat. A
document is stored whole or not at all; one that fails leaves its reason and the others
go on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ragstone.errors import (
    ContentError,
    ContentRefused,
    InputError,
    InvalidMetadata,
    InvalidStage,
    NoText,
    RagstoneError,
    TextTooLong,
    first_error,
)
from ragstone.protocols import ChunkTransformer, Cleaner, Embedder, IngestStore, Parser, Splitter, Unpacker
from ragstone.types import (
    DEFAULT_BASE,
    MEMBER_MARK,
    Blob,
    Chunk,
    Document,
    LoadFailure,
    Remark,
    Vectors,
    digest,
)

FileStatus: TypeAlias = Literal["ready", "unchanged", "failed"]

# Containers whose members are under way at once: so many blobs wait in memory for theirs.
MAX_OPEN = 4

# Chunks embedded at once: enough for batches of similar length, few enough that the
# progress moves every few seconds on a laptop.
EMBED_SLICE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """How one file ended. `error` says why a failed one failed."""

    uri: str
    name: str
    status: FileStatus
    document_id: str = ""
    chunks: int = 0
    warnings: tuple[Remark, ...] = ()
    error: RagstoneError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksEmbedded:
    """Progress inside a large file: `chunks` more have a vector; `reused` of them were known."""

    chunks: int
    reused: int


IngestEvent: TypeAlias = FileResult | ChunksEmbedded


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """All files of one run, the chunks embedded or reused, tokens the model read, seconds a stage."""

    files: tuple[FileResult, ...] = ()
    embedded: int = 0
    reused: int = 0
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def count(self, status: FileStatus) -> int:
        return sum(file.status == status for file in self.files)

    @property
    def chunks(self) -> int:
        return sum(file.chunks for file in self.files)


@dataclass(frozen=True, kw_only=True)
class IngestPipeline:
    """Reads blobs into a store.

    Only `parse`, `split`, `embedder` and `store` are required. `settings` names whatever
    else changes the result (parser version, sizes): with the content it makes the revision
    of a document, and a document whose revision is already stored is not read again.
    `parsers` blobs are parsed at once.

    With `unpack`, the members of containers (archives, mails, PDFs with files in them)
    become documents of their own, and belong to their container: its document is stored
    when they are, one that is unchanged is skipped with all of them, and members that are
    gone from a changed one are deleted.
    """

    parse: Parser
    split: Splitter
    embedder: Embedder
    store: IngestStore
    clean: Sequence[Cleaner] = ()
    transform: Sequence[ChunkTransformer] = ()
    unpack: Unpacker | None = None
    settings: str = ""
    parsers: int = 2

    def __post_init__(self) -> None:
        if self.parsers < 1:
            raise InvalidStage("ingest.parsers", value=self.parsers)

    async def run(
        self,
        blobs: AsyncIterator[Blob | LoadFailure],
        *,
        base_id: str = DEFAULT_BASE,
        on_event: Callable[[IngestEvent], None] | None = None,
    ) -> IngestResult:
        """Ingest every blob into `base_id`.

        Raises:
            StoreError, ModelError, ProviderError: nothing more can be stored. Documents
                stored before stay, and the next run goes on after them.
        """
        run = _Run(self, base_id, await self.store.revisions(base_id), on_event)
        try:
            await run.go(blobs)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return run.result()


@dataclass(slots=True)
class _Prepared:
    """A document on its way to the store: split, with or without its vectors."""

    name: str
    document: Document
    chunks: list[Chunk]
    vectors: Vectors | None = None


class _Family:
    """A container and how its members fare; `done` is set when the last of them has ended."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self.uris: set[str] = set()
        self.failed = 0
        self.whole = True
        self.warnings: list[Remark] = []
        self.done = anyio.Event()
        self._waiting = 1  # for the end of the list of members

    def member(self, uri: str) -> None:
        self.uris.add(uri)
        self._waiting += 1

    def ended(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.done.set()


class _Run:
    """One call of `IngestPipeline.run`: its queues, counters and clock."""

    def __init__(
        self,
        pipeline: IngestPipeline,
        base_id: str,
        known: Mapping[str, str],
        on_event: Callable[[IngestEvent], None] | None,
    ) -> None:
        self._pipeline = pipeline
        self._base_id = base_id
        self._known = known
        self._on_event = on_event
        self._files: list[FileResult] = []
        self._embedded = self._reused = self._tokens = 0
        self._seconds: dict[str, float] = {}
        self._families: dict[str, _Family] = {}
        self._member_of: dict[str, _Family] = {}

    def result(self) -> IngestResult:
        return IngestResult(
            files=tuple(self._files),
            embedded=self._embedded,
            reused=self._reused,
            tokens=self._tokens,
            seconds=dict(self._seconds),
        )

    async def go(self, blobs: AsyncIterator[Blob | LoadFailure]) -> None:
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
        self, blobs: AsyncIterator[Blob | LoadFailure], parsing: MemoryObjectSendStream[Blob]
    ) -> None:
        room = anyio.Semaphore(MAX_OPEN)
        async with parsing, anyio.create_task_group() as families:
            async for item in blobs:
                if isinstance(item, LoadFailure):
                    self._fail(item)
                    continue
                if self._pipeline.unpack is None or self._known.get(item.uri) == self._revision(item):
                    await parsing.send(item)
                    continue
                await room.acquire()
                family = self._families[item.uri] = _Family(item)
                await self._send_members(family, self._pipeline.unpack, parsing)
                families.start_soon(self._send_container, family, parsing, room)

    async def _send_members(
        self, family: _Family, unpack: Unpacker, parsing: MemoryObjectSendStream[Blob]
    ) -> None:
        try:
            async with aclosing(unpack(family.blob)) as members:
                async for member in members:
                    family.member(member.uri)
                    self._member_of[member.uri] = family
                    if isinstance(member, LoadFailure):
                        self._fail(member)
                    else:
                        await parsing.send(member)
        except (ContentError, InputError) as error:
            family.whole = False
            if family.uris:  # else reading the container itself says why
                values = {name: v if isinstance(v, int) else str(v) for name, v in error.values.items()}
                family.warnings.append(Remark(key=error.key, values=values))
        family.ended()

    async def _send_container(
        self, family: _Family, parsing: MemoryObjectSendStream[Blob], room: anyio.Semaphore
    ) -> None:
        """The container itself, after its members: were it stored first, a run cut short would lose some."""
        await family.done.wait()
        if family.whole:
            prefix = family.blob.uri + MEMBER_MARK
            gone = [uri for uri in self._known if uri.startswith(prefix) and uri not in family.uris]
            await self._pipeline.store.delete([digest(self._base_id, uri) for uri in gone])
        if family.failed:
            values: dict[str, str | int] = {"name": family.blob.name, "count": family.failed}
            family.warnings.append(Remark(key="ingest.members_failed", values=values))
        await parsing.send(family.blob)
        room.release()

    def _revision(self, blob: Blob) -> str:
        # Not the model: a base has one, and another is given to all of its documents at once.
        return digest(blob.content_hash, self._pipeline.settings)

    async def _prepare(
        self, parsing: MemoryObjectReceiveStream[Blob], embedding: MemoryObjectSendStream[_Prepared]
    ) -> None:
        async with parsing, embedding:
            async for blob in parsing:
                revision = self._revision(blob)
                if self._known.get(blob.uri) == revision:
                    self._finish(FileResult(uri=blob.uri, name=blob.name, status="unchanged"))
                    continue
                try:
                    prepared = await self._read(blob, revision)
                except (ContentError, InputError) as error:
                    self._finish(FileResult(uri=blob.uri, name=blob.name, status="failed", error=error))
                else:
                    await embedding.send(prepared)

    async def _read(self, blob: Blob, revision: str) -> _Prepared:
        with self._clock("parse"):
            parsed = await self._pipeline.parse(blob)
        if family := self._families.pop(blob.uri, None):
            parsed = replace(parsed, warnings=(*parsed.warnings, *family.warnings))
        parsed = replace(parsed, base_id=self._base_id, document_id="", revision=revision)
        with self._clock("split"):
            document, chunks = await anyio.to_thread.run_sync(self._cut, parsed)
        if document is None or not chunks:
            raise NoText("ingest.no_text", name=blob.name)
        return _Prepared(blob.name, document, chunks)

    def _cut(self, document: Document) -> tuple[Document | None, list[Chunk]]:
        for clean in self._pipeline.clean:
            cleaned = clean(document)
            if cleaned is None:
                return None, []
            document = cleaned
        chunks = self._pipeline.split(document)
        for transform in self._pipeline.transform:
            chunks = [kept for chunk in chunks if (kept := transform(chunk)) is not None]
        return document, chunks

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
            self._finish(FileResult(uri=document.uri, name=group[0].name, status="failed", error=error))
            return []
        return group

    async def _fill_vectors(self, group: list[_Prepared]) -> None:
        """Give every chunk its vector: known ones from the store, each other text embedded once."""
        import numpy as np

        embedder, chunks = self._pipeline.embedder, [chunk for prepared in group for chunk in prepared.chunks]
        texts = {chunk.embedding_hash: chunk.embedding_text for chunk in chunks}
        vectors = dict(await self._pipeline.store.known_vectors(embedder.identity, list(texts)))
        missing = sorted(texts.keys() - vectors.keys(), key=lambda name: (len(texts[name]), name))
        self._reused += len(texts) - len(missing)
        self._emit(ChunksEmbedded(chunks=len(texts) - len(missing), reused=len(texts) - len(missing)))
        for start in range(0, len(missing), EMBED_SLICE):
            hashes = missing[start : start + EMBED_SLICE]
            with self._clock("embed"):
                embedded = await embedder.embed_documents([texts[name] for name in hashes])
            vectors.update(zip(hashes, embedded.values, strict=True))
            self._embedded += len(hashes)
            self._tokens += embedded.tokens
            self._emit(ChunksEmbedded(chunks=len(hashes), reused=0))
        for prepared in group:
            rows = [vectors[chunk.embedding_hash] for chunk in prepared.chunks]
            prepared.vectors = Vectors(model=embedder.identity, values=np.stack(rows).astype(np.float32))

    async def _store(self, storing: MemoryObjectReceiveStream[_Prepared]) -> None:
        async with storing:
            async for prepared in storing:
                try:
                    result = await self._stored(prepared)
                except (ContentError, InvalidMetadata, InvalidStage) as error:
                    # About this document alone, such as an address too long for the store.
                    uri = prepared.document.uri
                    result = FileResult(uri=uri, name=prepared.name, status="failed", error=error)
                self._finish(result)

    async def _stored(self, prepared: _Prepared) -> FileResult:
        assert prepared.vectors is not None  # set by _embed
        with self._clock("store"):
            written = await self._pipeline.store.replace(prepared.document, prepared.chunks, prepared.vectors)
        return FileResult(
            uri=prepared.document.uri,
            name=prepared.name,
            status="ready" if written else "unchanged",
            document_id=prepared.document.document_id,
            chunks=len(prepared.chunks) if written else 0,
            warnings=prepared.document.warnings,
        )

    def _fail(self, item: LoadFailure) -> None:
        self._finish(FileResult(uri=item.uri, name=item.name, status="failed", error=item.error))

    def _finish(self, file: FileResult) -> None:
        self._files.append(file)
        self._emit(file)
        if family := self._member_of.pop(file.uri, None):
            family.failed += file.status == "failed"
            family.ended()

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
