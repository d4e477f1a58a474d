"""A base into a new generation: its stored texts split and embedded anew, checked, swapped in.

The generation that answers goes on answering meanwhile. What is stopped goes on where it
was with the next call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ragstone.errors import ModelMismatch, NoText, NotFound, SourceNotFound, StoreError, StoreUnavailable
from ragstone.ingest import FileResult, IngestEvent, IngestPipeline
from ragstone.protocols import Embedder, Splitter
from ragstone.store.generations import Generation, Generations, Missing
from ragstone.store.postgres import PostgresStore
from ragstone.types import Blob, Chunk, DeletionReport, Document, Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASSES = 50
"""Documents that change while a generation is built are built in the next pass, each shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBuild:
    """Progress: so many documents are still to be built."""

    documents: int


ReindexEvent: TypeAlias = ToBuild | IngestEvent

Check: TypeAlias = Callable[[Generation, Generation], Awaitable[str | None]]
"""Looks at the generation that answers and at the one to take its place; a reason refuses the swap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """How it ended: what answers now, and what did before, which is the same where nothing was to do."""

    generation: Generation
    before: Generation
    embedded: int = 0
    reused: int = 0

    @property
    def swapped(self) -> bool:
        return self.generation.generation_id != self.before.generation_id


@dataclass(frozen=True, kw_only=True)
class Rebuild:
    """Builds generations of bases in `store` with one splitter and one embedding model.

    `settings` name the splitter and whatever else changes the chunks.
    """

    store: PostgresStore
    split: Splitter
    embedder: Embedder
    settings: str
    on_event: Callable[[ReindexEvent], None] | None = None

    async def run(self, base_id: str, *, check: Check | None = None) -> Reindexed:
        """Build, check, swap, collect what is then left over.

        Raises:
            NotFound: the base holds nothing yet.
            StoreError: a document cannot be built, or `check` refused; nothing has changed.
            StoreUnavailable: another process is building.
        """
        generations = self.store.generations
        async with generations.alone(base_id):
            before = await self._answering(base_id)
            if before.made_with(self.embedder.identity, self.settings):
                return await self._ended(before, before)
            target = await generations.begin(
                base_id, self.embedder.identity, self.embedder.dimension, settings=self.settings
            )
            return await self._swapped(before, target, check)

    async def roll_back(self, base_id: str) -> Reindexed:
        """Let the generation that answered before the last swap answer again.

        Documents that have changed since are built in it first.

        Raises:
            NotFound: there is none.
            ModelMismatch: documents have changed, and the model or the settings are not its own.
        """
        generations = self.store.generations
        async with generations.alone(base_id):
            before = await self._answering(base_id)
            held = await generations.of_base(base_id)
            target = next((item for item in held if item.state == "retired"), None)
            if target is None:
                raise NotFound("kb.no_earlier_generation")
            if target.made_with(self.embedder.identity, self.settings):
                return await self._swapped(before, target, None)
            # What is missing could only be built with other settings than its own.
            await generations.index(target)
            if missing := await generations.swap(target):
                raise ModelMismatch(
                    "kb.roll_back_settings", count=missing, model=target.model, settings=target.settings
                )
            return await self._ended(before, target)

    async def _answering(self, base_id: str) -> Generation:
        before = await self.store.generations.active(base_id)
        if before is None:
            raise NotFound("kb.nothing_to_reindex")
        return before

    async def _swapped(self, before: Generation, target: Generation, check: Check | None) -> Reindexed:
        generations = self.store.generations
        build = _Build(self, target)
        for _ in range(PASSES):
            await build.missing()
            target = await self._now(target)
            await generations.index(target)
            if check is not None:
                reason, check = await check(before, target), None
                if reason is not None:
                    raise StoreError("kb.swap_refused", reason=reason)
            if not await generations.swap(target):
                break
        else:
            raise StoreUnavailable("kb.reindex_restless")
        return await self._ended(before, target, embedded=build.embedded, reused=build.reused)

    async def _ended(
        self, before: Generation, target: Generation, *, embedded: int = 0, reused: int = 0
    ) -> Reindexed:
        await self.store.generations.collect(target.base_id)
        await self.store.tell_index()
        generation = await self._answering(target.base_id)
        return Reindexed(generation=generation, before=before, embedded=embedded, reused=reused)

    async def _now(self, generation: Generation) -> Generation:
        held = await self.store.generations.of_base(generation.base_id)
        return next(item for item in held if item.generation_id == generation.generation_id)


class _Build:
    """Documents that a generation does not have, through the ingest path: read, split, embed, store."""

    def __init__(self, rebuild: Rebuild, target: Generation) -> None:
        self._rebuild = rebuild
        self._target = target
        self._store = rebuild.store
        self._documents: dict[str, Document] = {}
        self._failed: dict[str, FileResult] = {}
        self._empty: list[Document] = []
        self.embedded = self.reused = 0

    async def missing(self) -> None:
        """Build every document that is missing now.

        Raises:
            StoreError: one cannot be built; names it and says why.
        """
        self._failed.clear()
        self._empty.clear()
        self._tell(ToBuild(documents=await self._generations.count_missing(self._target.generation_id)))
        pipeline = IngestPipeline(
            parse=self._stored, split=self._rebuild.split, embedder=self._rebuild.embedder, store=self
        )
        async with aclosing(self._blobs()) as blobs:
            result = await pipeline.run(blobs, base_id=self._target.base_id, on_event=self._seen)
        self.embedded += result.embedded
        self.reused += result.reused
        for document in self._empty:
            await self._generations.write(self._target, document, [], self._no_vectors())
        if self._failed:
            first = next(iter(self._failed.values()))
            raise StoreError(
                "kb.reindex_failed", count=len(self._failed), name=first.name, reason=first.error or ""
            )

    @property
    def _generations(self) -> Generations:
        return self._store.generations

    async def _blobs(self) -> AsyncGenerator[Blob, None]:
        page: list[Missing] = []
        while page := await self._generations.missing(
            self._target.generation_id, after=page[-1].document_id if page else ""
        ):
            for item in page:
                yield Blob(uri=item.uri, name=item.title or item.uri, data=item.document_id.encode())

    async def _stored(self, blob: Blob) -> Document:
        document = await self._store.document(blob.data.decode())
        if document is None:
            raise SourceNotFound("kb.document_not_found", reference=blob.uri)
        self._documents[document.uri] = document
        return document

    def _seen(self, event: IngestEvent) -> None:
        if isinstance(event, FileResult):
            document = self._documents.pop(event.uri, None)
            if event.status == "failed" and document is not None:
                if isinstance(event.error, NoText):  # it had no chunks before either
                    self._empty.append(document)
                else:
                    self._failed[event.uri] = event
        self._tell(event)

    def _no_vectors(self) -> Vectors:
        import numpy as np

        embedder = self._rebuild.embedder
        return Vectors(model=embedder.identity, values=np.zeros((0, embedder.dimension), np.float32))

    def _tell(self, event: ReindexEvent) -> None:
        if self._rebuild.on_event is not None:
            self._rebuild.on_event(event)

    # --- the store of the pipeline ----------------------------------------------------

    async def replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        """Into the generation that is built; the document itself stays as it is."""
        stored = self._documents[document.uri]
        if stored.document_id != document.document_id:  # one that was given an id
            chunks = [replace(chunk, document_id=stored.document_id) for chunk in chunks]
        written = await self._generations.write(self._target, stored, chunks, vectors)
        if written:
            await self._store.tell_index()
        return written

    async def delete(self, document_ids: Sequence[str]) -> DeletionReport:
        """Nothing is deleted by building."""
        del document_ids
        return DeletionReport(document_ids=(), rows={})

    async def revisions(self, base_id: str, *, uri: str | None = None) -> Mapping[str, str]:
        """None: what is built already is not asked for."""
        del base_id, uri
        return {}

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        return await self._store.known_vectors(model, hashes)

    async def token_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.uint8]]:
        return await self._store.token_vectors(model, hashes)
