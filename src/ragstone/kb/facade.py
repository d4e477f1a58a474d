"""`KnowledgeBases`: everything the application does, as one async object.

The command line calls it, and `ragstone.open` gives its blocking face.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, Unpack, overload

import anyio
import anyio.to_thread

from ragstone.assistant import typed_end
from ragstone.errors import BaseNotFound, InvalidSetting, ModelMismatch, NotConfigured, SourceNotFound
from ragstone.evaluate import Dataset
from ragstone.filters import Filter, parse
from ragstone.ingest import IngestEvent, IngestPipeline, IngestResult
from ragstone.kb import bases, documents, files, removal
from ragstone.kb.bases import BaseInfo
from ragstone.kb.bootstrap import App, Notice
from ragstone.kb.caller import OWNER
from ragstone.kb.documents import DocumentInfo
from ragstone.kb.evaluation import Evaluation, EvaluationEvent, evaluated
from ragstone.kb.golden import Golden
from ragstone.kb.loading import Loading
from ragstone.kb.reindex import Check, Rebuild, Reindexed, ReindexEvent
from ragstone.kb.settings import Settings, load
from ragstone.kb.syncing import SyncResult, synced
from ragstone.memory import window
from ragstone.retrieve.store import SearchMode
from ragstone.store.deletion import Proof
from ragstone.types import (
    Answer,
    Blob,
    Chunk,
    DeletionReport,
    Delta,
    Document,
    Done,
    Event,
    Hit,
    LoadFailure,
    Message,
    Query,
    Scope,
    SearchResult,
    Sources,
    checked_top_k,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Progress: how much there is to read, before the first file."""

    files: int
    bytes: int


AddEvent: TypeAlias = Found | IngestEvent


class Asking(TypedDict, total=False):
    """What may be said with a question. Of `history` the latest turns are taken, ten messages."""

    bases: Sequence[str] | None
    filter: str | Filter | None
    history: Sequence[Message]
    top_k: int | None


class AnswerStream(AsyncIterator[str]):
    """The pieces of an answer's text as they come; afterwards `answer` is the whole of it.

    `hits` are the passages it is written from, known before the first piece. The pieces
    joined are the text as it was streamed; `answer.text` is the one to keep, with
    citations repaired.
    """

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self.hits: tuple[Hit, ...] = ()
        self.answer: Answer | None = None

    async def __anext__(self) -> str:
        async for event in self._events:
            match event:
                case Delta(text=text) if text:
                    return text
                case Sources(hits=hits):
                    self.hits = hits
                case Done(answer=answer):
                    self.answer = answer
                case _:
                    pass
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop; the chat model's connection is closed."""
        await self._events.aclose()


class KnowledgeBases:
    """Bases of documents that can be searched and asked.

    Nothing is started before it is needed: the first `add` or `search` starts the
    database and loads the embedding model.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    @classmethod
    async def open(
        cls, settings: Settings | None = None, *, on_notice: Callable[[Notice], None] | None = None
    ) -> KnowledgeBases:
        """With these settings, or with those of environment and `ragstone.toml`."""
        return cls(App(settings or await anyio.to_thread.run_sync(load), on_notice))

    async def aclose(self) -> None:
        await self._app.aclose()

    # --- documents ---------------------------------------------------------------

    async def add(
        self,
        *sources: str | Path,
        base: str = "default",
        glob: str | None = None,
        jobs: int | None = None,
        on_event: Callable[[AddEvent], None] | None = None,
    ) -> IngestResult:
        """Read files, folders and addresses into a base, which is made when it is not there.

        Of a sitemap the pages are read. Unchanged files are skipped. A file that fails is in
        the result with its reason; the others go on. `jobs` files are parsed at once.

        Raises:
            SourceNotFound: a path does not exist, or nothing in it can be added.
            ModelMismatch: the base was built with another embedding model.
        """
        names = list(map(str, sources))
        loading = Loading(self._app.settings, glob=glob)
        found = await loading.scan(names)
        if not found.files:
            raise SourceNotFound("kb.nothing_to_add", source=", ".join(names))
        if on_event is not None:
            on_event(Found(files=found.files, bytes=found.bytes))
        pipeline = await self._app.ingest(jobs)
        base_id = await self._base_for_writing(base)
        async with self._loading(glob, pipeline, base_id) as loading, aclosing(loading.all(names)) as blobs:
            return await pipeline.run(blobs, base_id=base_id, on_event=on_event)

    async def sync(
        self,
        source: str | Path,
        *,
        base: str,
        glob: str | None = None,
        jobs: int | None = None,
        dry_run: bool = False,
        allow_empty: bool = False,
        on_event: Callable[[AddEvent], None] | None = None,
    ) -> SyncResult:
        """Make a base equal to a folder, file or sitemap: add, update and delete.

        Only documents whose uri lies below the source, and fits `glob`, are touched. With
        `dry_run` nothing is changed: the result says what would be. Unless `allow_empty`, a
        source without any file is refused while the base holds documents of it.

        Raises:
            InputError: the source is empty. SourceNotFound: it is not there.
            ModelMismatch: the base was built with another embedding model.
        """
        name, loading = str(source), Loading(self._app.settings, glob=glob)
        found = await loading.scan([name])
        if on_event is not None:
            on_event(Found(files=found.files, bytes=found.bytes))
        pipeline = await self._app.ingest(jobs)
        base_id = await (self._base_for_plan(base) if dry_run else self._base_for_writing(base))
        stored = await documents.listing(await self._app.database(), base_id)

        async def delete(document_ids: Sequence[str]) -> DeletionReport:
            return await removal.remove(self._app, OWNER, document_ids, base_id=base_id)

        async with self._loading(glob, pipeline, base_id) as loading:
            return await synced(
                name,
                loading=loading,
                pipeline=pipeline,
                base_id=base_id,
                stored=stored,
                delete=delete,
                dry_run=dry_run,
                allow_empty=allow_empty,
                on_event=on_event,
            )

    @asynccontextmanager
    async def _loading(
        self, glob: str | None, pipeline: IngestPipeline, base_id: str
    ) -> AsyncGenerator[Loading, None]:
        store = await self._app.store()
        loading = Loading(self._app.settings, glob=glob, pipeline=pipeline, store=store, base_id=base_id)
        try:
            yield loading
        finally:
            await loading.aclose()

    async def parse(self, path: str | Path) -> Document:
        """The text, pages and headings that `add` would store for this file or address.

        Raises:
            ContentError: it cannot be read; the reason `add` would give.
        """
        loading = Loading(self._app.settings)
        try:
            async with aclosing(loading(str(path))) as stream:
                async for item in stream:
                    if isinstance(item, LoadFailure):
                        raise item.error
                    if isinstance(item, Blob):
                        return await self._app.read(item)
        finally:
            await loading.aclose()
        raise SourceNotFound("kb.nothing_to_add", source=path)

    async def documents(self, base: str | None = None) -> list[DocumentInfo]:
        return await documents.listing(await self._app.database(), await self._base_id(base))

    async def document(self, reference: str, *, base: str | None = None) -> tuple[DocumentInfo, Document]:
        """One document by id, the first 6 characters of it, address, path, file name or title.

        Raises:
            NotFound: none matches. InputError: several match.
        """
        info = await documents.find(await self._app.database(), reference, await self._base_id(base))
        document = await (await self._app.store()).document(info.document_id)
        if document is None:  # removed since
            return await self.document(reference, base=base)
        return info, document

    async def chunks(self, document_id: str) -> list[Chunk]:
        """The chunks that a document was cut into, in order."""
        chunk_ids = await documents.chunk_ids(await self._app.database(), document_id)
        return [hit.chunk for hit in await (await self._app.store()).fetch(chunk_ids)]

    async def remove(self, *references: str, base: str | None = None) -> DeletionReport:
        """Remove documents with all that belongs to them, also the members of a container."""
        base_id, database = await self._base_id(base), await self._app.database()
        found = [await documents.find(database, item, base_id) for item in references]
        return await removal.remove(self._app, OWNER, [info.document_id for info in found])

    async def verify_deleted(self, document_id: str) -> Proof:
        """Look through every table, of the library and of the application, for rows of a removed document.

        Raises:
            NotFound: no removal of this id is on record.
        """
        return await removal.proof(self._app, document_id)

    # --- bases -------------------------------------------------------------------

    async def bases(self) -> list[BaseInfo]:
        return await bases.listing(await self._app.database())

    async def base_names(self) -> dict[str, str]:
        """Base id to name."""
        ids = await bases.ids_by_name(await self._app.database())
        return {base_id: name for name, base_id in ids.items()}

    async def file_names(self, documents: Mapping[str, str]) -> dict[str, str]:
        """Document id to the name of its file, for documents id -> uri: what people know them by."""
        return await files.names(await self._app.database(), documents)

    async def remove_base(self, name: str) -> DeletionReport:
        """Remove a base and every document in it; where that was stopped, again for what is left."""
        base_id = (await bases.resolve(await self._app.database(), [name]))[0]
        return await removal.remove_base(self._app, OWNER, base_id)

    async def reindex(
        self,
        base: str,
        *,
        golden: Dataset | None = None,
        check: Check | None = None,
        on_event: Callable[[ReindexEvent], None] | None = None,
    ) -> Reindexed:
        """Split and embed the stored texts of a base anew, as the settings now say.

        The base answers meanwhile as before; the new generation takes over when it is
        complete. With `golden` both are asked its questions, and the swap is refused when
        recall@10 gets worse by more than 0.01; `check` may refuse for any other reason.

        Raises:
            BaseNotFound, NotFound: no such base, or nothing in it.
            StoreError: refused, or a document cannot be built; nothing has changed.
        """
        base_id = (await bases.resolve(await self._app.database(), [base]))[0]
        rebuild = await self._app.rebuild(on_event)
        if golden is not None:
            check = Golden(rebuild.store, rebuild.embedder, golden)
        return await rebuild.run(base_id, check=check)

    async def roll_back(
        self, base: str, *, on_event: Callable[[ReindexEvent], None] | None = None
    ) -> Reindexed:
        """Let the generation answer that did before the last `reindex`.

        Raises:
            NotFound: there is none.
            ModelMismatch: documents have changed since, and the settings are not its own.
        """
        base_id = (await bases.resolve(await self._app.database(), [base]))[0]
        return await (await self._app.rebuild(on_event)).roll_back(base_id)

    async def collect(self, base: str) -> int:
        """Delete all generations of a base but the one that answers; returns how many.

        Afterwards nothing is left to roll back to.
        """
        base_id = (await bases.resolve(await self._app.database(), [base]))[0]
        store = await self._app.store()
        async with store.generations.alone(base_id):
            collected = await store.generations.collect(base_id, states=("building", "retired"))
        await store.tell_index()
        return collected

    async def evaluate(
        self,
        dataset: Dataset,
        *,
        base: str | None = None,
        mode: SearchMode = "hybrid",
        on_event: Callable[[EvaluationEvent], None] | None = None,
    ) -> Evaluation:
        """Index the dataset's passages, ask its questions, and measure what was found.

        The passages go into `base` and stay there; without one they go into a base of
        their own that is removed afterwards, also when the work is stopped.

        Raises:
            MissingExtra: the package for the metrics is not installed.
            ModelMismatch: the base was built with another embedding model.
        """
        kept = base is not None
        name = base if base is not None else f"eval-{secrets.token_hex(4)}"
        try:
            base_id = await self._base_for_writing(name)
            return await evaluated(self._app, dataset, base_id=base_id, mode=mode, on_event=on_event)
        finally:
            if not kept:
                with anyio.CancelScope(shield=True), suppress(BaseNotFound):
                    await self.remove_base(name)

    async def rebuild_index(self, name: str, *, on_filled: Callable[[int, int], None] | None = None) -> int:
        """Fill the vector index `name` of the settings anew from PostgreSQL; how many vectors it has then.

        Searches go on meanwhile. An interrupted call is gone on with by the next. `on_filled`
        is called with the vectors done and those there are.

        Raises:
            InvalidSetting: `name` is not the index of the settings.
            StoreError: the index or the database failed.
        """
        configured = self._app.settings.vector_index
        if name != configured:
            raise InvalidSetting("kb.index_name", name=name, configured=configured or "-")
        return await (await self._app.store()).rebuild_index(on_filled)

    # --- questions ---------------------------------------------------------------

    async def search(
        self,
        text: str,
        *,
        bases: Sequence[str] | None = None,
        mode: SearchMode = "hybrid",
        top_k: int | None = None,
        min_score: float | None = None,
        filter: str | Filter | None = None,
        rerank: bool | None = None,
    ) -> SearchResult:
        """The best passages for a text; `min_score` is on the scale of the mode's scores.

        `rerank` puts them in the order of the reranker of the settings; by default that is
        done when there is one.

        Raises:
            InvalidQuery: a blank or over-long text, or a top-k outside 1 to 1,000.
            BaseNotFound, InvalidFilter: say what is wrong with them.
            NotConfigured: `rerank` without a reranker in the settings.
        """
        top_k = self._top_k(top_k)  # refused before anything is started
        if rerank and not self._app.settings.rerank_kind:
            raise NotConfigured("kb.no_reranker")
        query = await self._query(text, bases, filter)
        pipeline = await self._app.search(mode, top_k, min_score, rerank=rerank is not False)
        return await pipeline.search(query)

    @overload
    def ask(
        self, text: str, *, stream: Literal[False] = False, **options: Unpack[Asking]
    ) -> Awaitable[Answer]: ...

    @overload
    def ask(self, text: str, *, stream: Literal[True], **options: Unpack[Asking]) -> AnswerStream: ...

    def ask(
        self, text: str, *, stream: bool = False, **options: Unpack[Asking]
    ) -> Awaitable[Answer] | AnswerStream:
        """Answer a question from the documents: the whole answer, or with `stream` piece by piece.

        Raises, when awaited or read:
            as `search`, and ProviderError when the chat model fails after its first word.
        """
        events = self._events(text, options)
        return AnswerStream(events) if stream else _last(events)

    def events(self, text: str, **options: Unpack[Asking]) -> AsyncGenerator[Event, None]:
        """The answer for a user interface: stages, sources, deltas, and `Done` or `Failed` last.

        Nothing of ours is raised: what `ask` would raise is the `error` of `Failed`.
        """
        return typed_end(self._events(text, options))

    async def _events(self, text: str, options: Asking) -> AsyncGenerator[Event, None]:
        top_k = self._top_k(options.get("top_k"))
        query = await self._query(
            text, options.get("bases"), options.get("filter"), window(options.get("history", ()))
        )
        pipeline = await self._app.answer(top_k)
        async with aclosing(pipeline.stream(query)) as events:
            async for event in events:
                yield event

    async def _query(
        self,
        text: str,
        names: Sequence[str] | None,
        filter: str | Filter | None,
        history: Sequence[Message] = (),
    ) -> Query:
        tree = parse(filter) if isinstance(filter, str) else filter
        query = Query(text, history=tuple(history))
        database = await self._app.database()
        base_ids = None if names is None else await bases.resolve(database, names)
        return Query(query.text, history=query.history, scope=Scope(bases=base_ids, filter=tree))

    def _top_k(self, top_k: int | None) -> int:
        return checked_top_k(self._app.settings.top_k if top_k is None else top_k)

    async def _base_for_writing(self, name: str) -> str:
        """The base's id, once it is sure that its vectors are of the present model."""
        base_id = await bases.ensure(await self._app.database(), name)
        rebuild = await self._fitting(name, base_id)
        embedder, generations = rebuild.embedder, rebuild.store.generations
        await generations.bind(base_id, embedder.identity, embedder.dimension, settings=rebuild.settings)
        return base_id

    async def _base_for_plan(self, name: str) -> str:
        """As `_base_for_writing`, but nothing is changed: a base that is not there is not made."""
        base_id = (await bases.ids_by_name(await self._app.database())).get(bases.checked_name(name))
        if base_id is None:
            return secrets.token_hex(8)  # the id of no base: nothing is stored in it
        await self._fitting(name, base_id)
        return base_id

    async def _fitting(self, name: str, base_id: str) -> Rebuild:
        """How the settings would build the base; refused where its vectors are of another model."""
        rebuild = await self._app.rebuild()
        found = await rebuild.store.generations.active(base_id)
        if found is not None and found.chunks:
            current = rebuild.embedder.identity
            if found.model != current:
                raise ModelMismatch("kb.model_changed", base=name, stored=found.model, current=current)
            if found.settings not in ("", rebuild.settings):
                self._app.notify("kb.settings_changed", base=name)
        return rebuild

    async def _base_id(self, name: str | None) -> str | None:
        return None if name is None else (await bases.resolve(await self._app.database(), [name]))[0]


async def _last(events: AsyncGenerator[Event, None]) -> Answer:
    stream = AnswerStream(events)
    try:
        async for _ in stream:
            pass
    finally:
        await stream.aclose()
    assert stream.answer is not None  # the last event of every stream
    return stream.answer
