"""Settings to a wired application: the only place that picks classes.

Every part is made at first need and closed in reverse order, so that `ragstone list`
loads no model and `ragstone parse` starts no database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from ragstone.augment import CitedContext
from ragstone.chat.unavailable import UnavailableChatModel
from ragstone.clean import CLEANER_REVISION, clean
from ragstone.embed.unavailable import UnavailableEmbedder
from ragstone.errors import InvalidSetting, ModelUnavailable, NoText, ProviderError, first_error
from ragstone.generate import ExtractiveGenerator, ModelGenerator
from ragstone.ingest import IngestPipeline
from ragstone.kb.keyring import Keyring
from ragstone.kb.reindex import Rebuild, ReindexEvent
from ragstone.kb.service_recipe import service_pipeline
from ragstone.kb.settings import Settings, read_passwords
from ragstone.kb.wakeup import NotifyWakeup, StreamWakeup, Wakeup
from ragstone.parse import ocr
from ragstone.parse.outline import PARSER_REVISION
from ragstone.parse.sandbox import ParserPool
from ragstone.postgres.migrate import migrate
from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.prompts import Wording, own_prompts
from ragstone.protocols import ChatModel, Embedder, Parser, Reranker
from ragstone.query import QueryPipeline
from ragstone.rerank import Rerank
from ragstone.retrieve.store import SearchMode, StoreRetriever
from ragstone.select import TokenBudget
from ragstone.split import ParentChildSplitter, RecursiveSplitter
from ragstone.store.postgres import PostgresStore
from ragstone.terms import TERMS_REVISION
from ragstone.transform import Compress, PreviousTurn
from ragstone.types import Blob, Document
from ragstone.widen import Parents
from ragstone.wrap import giving_up

if TYPE_CHECKING:
    from ragstone.kb.blobs import BlobStore

T = TypeVar("T")
U = TypeVar("U")

RERANK_CANDIDATES = 20
"""The wide end of the funnel; four for each passage kept when that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something long has begun or moves on: a message key with its values, and the share done."""

    key: str
    values: dict[str, object] = field(default_factory=dict[str, object])
    fraction: float | None = None


CONTEXT_SIZE, HEADER_SIZE = 60, 80
"""The most tokens of title and headings, and of a repeated table header, in front of a chunk."""


def splitter(settings: Settings, embedder: Embedder) -> RecursiveSplitter | ParentChildSplitter:
    """The splitter of the settings; a chunk with its context stays within the model's length.

    Raises:
        InvalidSetting: `chunk_size` leaves no room for title and headings.
    """
    room = embedder.max_tokens - settings.chunk_size - CONTEXT_SIZE
    if room < 0:
        raise InvalidSetting(
            "kb.chunk_size",
            value=settings.chunk_size,
            model=embedder.identity,
            limit=embedder.max_tokens - CONTEXT_SIZE,
        )
    # The line breaks between context and text may be tokens too.
    header_size = max(0, min(HEADER_SIZE, room - 4))
    if settings.chunk_parent:
        return ParentChildSplitter(
            parent_size=settings.chunk_parent,
            child_size=settings.chunk_size,
            overlap=settings.chunk_overlap,
            tokenizer=embedder.tokenizer,
            context_size=CONTEXT_SIZE,
            header_size=header_size,
        )
    return RecursiveSplitter(
        max_size=settings.chunk_size,
        overlap=settings.chunk_overlap,
        tokenizer=embedder.tokenizer,
        context_size=CONTEXT_SIZE,
        header_size=header_size,
    )


class App:
    """The parts of one application, by need."""

    def __init__(self, settings: Settings, on_notice: Callable[[Notice], None] | None = None) -> None:
        self.settings = settings
        self._on_notice = on_notice
        self._stack = AsyncExitStack()
        self._made: dict[str, Any] = {}
        self._locks: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    def _notify(self, key: str, values: Mapping[str, object], fraction: float | None = None) -> None:
        if self._on_notice is not None:
            self._on_notice(Notice(key=key, values=dict(values), fraction=fraction))

    def notify(self, key: str, **values: object) -> None:
        self._notify(key, values)

    async def database(self) -> Database:
        """The database, its tables up to date."""
        await self.store()
        return await self._once("database", self._open_database)

    async def store(self) -> PostgresStore:
        database = await self._once("database", self._open_database)
        return await self._once("store", lambda: self._open_store(database))

    async def keyring(self) -> Keyring:
        database = await self.database()
        return await self._once("keyring", lambda: Keyring.open(database))

    async def blobs(self) -> BlobStore:
        """Where the originals of uploaded files lie."""
        from ragstone.kb.blobs import BlobStore

        settings = self.settings
        return await self._once(
            "blobs", lambda: BlobStore.open(settings.blob_url, folder=settings.home / "blobs")
        )

    async def wakeup(self) -> Wakeup:
        database = await self.database()
        return await self._once("wakeup", lambda: self._open_wakeup(database))

    async def embedder(self) -> Embedder:
        return await self._once("embedder", self._open_embedder)

    async def parser(self, workers: int | None = None) -> ParserPool:
        """Reads up to `workers` files at once, by default as many as the settings say."""
        count = workers or self.settings.parse_workers
        return await self._once(f"parser of {count}", lambda: self._open_parser(count))

    async def searching_embedder(self) -> Embedder:
        """The embedder; where it cannot be opened one that says so, for a search can do without."""
        try:
            return await self.embedder()
        except (ProviderError, ModelUnavailable) as error:
            return UnavailableEmbedder(error)

    async def chat(self) -> ChatModel | None:
        """The chat model of the settings; None is a normal state."""
        settings = self.settings
        if not (settings.chat_base_url or settings.chat_model_file):
            return None
        return await self._once("chat", self._open_chat)

    async def reranker(self) -> Reranker | None:
        """The reranker of the settings; None is a normal state."""
        return await self._once("reranker", self._open_reranker) if self.settings.rerank_kind else None

    async def prompts(self) -> Mapping[str, Wording]:
        """The prompts that the user has worded anew, by name."""
        folder = self.settings.prompts
        if not folder:
            return {}
        return await self._once("prompts", lambda: anyio.to_thread.run_sync(own_prompts, Path(folder)))

    # --- pipelines ---------------------------------------------------------------

    async def ingest(
        self, parsers: int | None = None, *, parse: Parser | None = None, settings: Settings | None = None
    ) -> IngestPipeline:
        """The pipeline that adds; `parse` stands in for the parsers of files, `settings` are a base's."""
        settings = settings or self.settings
        store, embedder = await self._together(self.store, self.embedder)
        parser = await self.parser(parsers)
        return IngestPipeline(
            parse=parse or parser,
            unpack=None if parse else parser.unpack,
            clean=[clean],
            split=splitter(settings, embedder),
            embedder=embedder,
            store=store,
            # How files are read. How texts are split and indexed belongs to the generation.
            settings="/".join((PARSER_REVISION, *(["ocr"] if ocr.installed() else []), CLEANER_REVISION)),
            parsers=parsers or settings.parse_workers,
            unlocks=bool(settings.password_file),
        )

    async def rebuild(
        self,
        on_event: Callable[[ReindexEvent], None] | None = None,
        *,
        settings: Settings | None = None,
    ) -> Rebuild:
        """What builds a generation with the model and the splitter of the settings, or of a base's own."""
        store, embedder = await self._together(self.store, self.embedder)
        split = splitter(settings or self.settings, embedder)
        made = f"{split.identity}/{TERMS_REVISION}"
        return Rebuild(store=store, split=split, embedder=embedder, settings=made, on_event=on_event)

    async def read(self, blob: Blob) -> Document:
        """What `ingest` stores of a blob: parsed, then cleaned."""
        parser = await self.parser()
        document = clean(await parser(blob))
        if not document.text.strip():
            raise NoText("ingest.no_text", name=blob.name)
        return document

    async def search(
        self, mode: SearchMode, top_k: int, min_score: float | None, *, rerank: bool = False
    ) -> QueryPipeline:
        """A pipeline to search with: its answers are never asked for. `rerank` orders, and keeps all."""
        reranker = await self.reranker() if rerank else None
        candidates = max(RERANK_CANDIDATES, top_k)
        stage = (
            None if reranker is None else Rerank(reranker, top_n=top_k, min_score=None, candidates=candidates)
        )
        retriever = await self._retriever(mode, top_k if stage is None else candidates, min_score)
        return QueryPipeline(
            retrievers=[retriever], rerank=stage, augment=CitedContext(), generate=ExtractiveGenerator()
        )

    async def answer(self, top_k: int, *, min_score: float | None = None) -> QueryPipeline:
        """The pipeline that answers: by the chat model of the settings, else by quoting."""
        chat, prompts = await self.chat(), await self.prompts()
        chat = None if chat is None else giving_up(chat)
        rerank = await self._rerank(top_k, chat)
        if self.settings.recipe == "service":
            store, embedder = await self._together(self.store, self.searching_embedder)
            pipeline = service_pipeline(
                self.settings, store, embedder, chat, rerank, prompts, top_k=top_k, min_score=min_score
            )
            return replace(pipeline, max_answer=self.settings.max_answer_chars)
        found = top_k if rerank is None else max(top_k, rerank.candidates)
        retriever = await self._retriever("hybrid", found, min_score)
        extractive = ExtractiveGenerator(await self.searching_embedder())
        compress = [] if chat is None else [Compress(chat, template=prompts.get("compress"))]
        return QueryPipeline(
            # What the model cannot make whole is searched with the question before in front of it.
            transform=[*compress, PreviousTurn()],
            retrievers=[retriever],
            rerank=rerank,
            select=[Parents(await self.store()), TokenBudget(self.settings.context_tokens)],
            augment=CitedContext(template=prompts.get("answer"), empty=prompts.get("empty")),
            refusal=prompts.get("refusal"),
            generate=extractive if chat is None else ModelGenerator(chat),
            fallback=None if chat is None else extractive,
            max_answer=self.settings.max_answer_chars,
        )

    async def _rerank(self, top_k: int, chat: ChatModel | None) -> Rerank | None:
        settings, reranker = self.settings, await self.reranker()
        if settings.rerank_kind == "judge":  # asks the chat model of this answer
            reranker = _reranker(settings, chat, (await self.prompts()).get("judge"))
        if reranker is None:
            return None
        return Rerank(
            reranker,
            top_n=min(settings.rerank_top_n, top_k),
            min_score=settings.rerank_min_score,
            candidates=max(RERANK_CANDIDATES, 4 * settings.rerank_top_n),
        )

    async def _retriever(self, mode: SearchMode, top_k: int, min_score: float | None) -> StoreRetriever:
        if mode == "text":
            store, embedder = await self.store(), None
        else:
            store, embedder = await self._together(self.store, self.searching_embedder)
        return StoreRetriever(
            store=store,
            embedder=embedder,
            mode=mode,
            top_k=top_k,
            min_score=min_score,
        )

    # --- making and closing ------------------------------------------------------

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    async def _once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        async with self._locks[name]:
            if name not in self._made:
                self._made[name] = await make()
            return self._made[name]

    async def _together(
        self, first: Callable[[], Awaitable[T]], second: Callable[[], Awaitable[U]]
    ) -> tuple[T, U]:
        """Both parts, opened side by side: the database is set up while the model is read."""
        opened: list[T] = []
        others: list[U] = []

        async def open_first() -> None:
            opened.append(await first())

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(open_first)
                others.append(await second())
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return opened[0], others[0]

    async def _open_database(self) -> Database:
        if self.settings.database_url:
            database = await Database.open(self.settings.database_url)
        else:
            server = await EmbeddedServer.start(self.settings.home, on_message=self._notify)
            self._stack.push_async_callback(server.aclose)
            database = await Database.open(server.ensure_running)
        self._stack.push_async_callback(database.aclose)
        return database

    async def _open_store(self, database: Database) -> PostgresStore:
        settings, index = self.settings, None
        if settings.vector_index == "milvus":
            from ragstone.store.index.milvus import MilvusIndex

            index = await MilvusIndex.open(settings.vector_index_url)
        elif settings.vector_index == "redis":
            from ragstone.store.index.redis import RedisIndex

            index = await RedisIndex.open(settings.vector_index_url)
        if index is not None:
            self._stack.push_async_callback(index.aclose)
        store = await PostgresStore.open(database, index=index)
        async with database.connection() as connection:
            await migrate(connection, "kb", files("ragstone.kb") / "migrations")
        return store

    async def _open_wakeup(self, database: Database) -> Wakeup:
        url = self.settings.redis_url
        wakeup = await StreamWakeup.open(url) if url else NotifyWakeup(database)
        self._stack.push_async_callback(wakeup.aclose)
        return wakeup

    async def _open_embedder(self) -> Embedder:
        settings = self.settings
        if settings.test_embedder == "fake":
            from ragstone.testing import FakeEmbedder

            return FakeEmbedder()
        if settings.embed_base_url:
            from ragstone.embed.openai import OpenAIEmbedder

            embedder = await OpenAIEmbedder.open(
                base_url=settings.embed_base_url,
                model=settings.embed_model,
                api_key=settings.embed_api_key,
                batch_size=settings.embed_batch,
                max_tokens=settings.embed_max_tokens,
                query_prefix=settings.embed_query_prefix,
                document_prefix=settings.embed_document_prefix,
            )
        else:
            from ragstone.embed.local import LocalEmbedder

            embedder = await LocalEmbedder.open(
                settings.home / "models",
                threads=settings.embed_threads or None,
                on_progress=lambda key, fraction: self._notify(key, {}, fraction),
            )
        self._stack.push_async_callback(embedder.aclose)
        return embedder

    async def _open_parser(self, workers: int) -> ParserPool:
        settings = self.settings
        passwords = await anyio.to_thread.run_sync(read_passwords, settings.password_file)
        pool = ParserPool(
            workers=workers,
            timeout=settings.parse_timeout,
            memory=settings.parse_memory_mb * 1_000_000,
            passwords=passwords,
        )
        self._stack.push_async_callback(pool.aclose)
        return pool

    async def _open_chat(self) -> ChatModel:
        settings = self.settings
        if settings.chat_model_file:
            from ragstone.chat.local import LocalChatModel

            self._notify("chat.loading", {})
            try:
                chat: ChatModel = await LocalChatModel.open(
                    settings.chat_model_file, context=settings.chat_context
                )
            except ModelUnavailable as error:
                return UnavailableChatModel(error)
        else:
            from ragstone.chat.openai import OpenAIChatModel

            chat = OpenAIChatModel(
                base_url=settings.chat_base_url,
                model=settings.chat_model,
                api_key=settings.chat_api_key,
                timeout=settings.chat_timeout,
            )
        self._stack.push_async_callback(chat.aclose)
        return chat

    async def _open_reranker(self) -> Reranker:
        chat = await self.chat() if self.settings.rerank_kind == "judge" else None
        reranker = _reranker(self.settings, chat, (await self.prompts()).get("judge"))
        self._stack.push_async_callback(reranker.aclose)
        return reranker


def _reranker(settings: Settings, chat: ChatModel | None, template: Wording | None) -> Reranker:
    from ragstone.rerank.cohere import CohereReranker
    from ragstone.rerank.dashscope import DashScopeReranker
    from ragstone.rerank.judge import ChatJudge
    from ragstone.rerank.tei import TeiReranker

    if chat is not None:
        return ChatJudge(chat, template=template)
    if settings.rerank_kind == "tei":
        return TeiReranker(
            base_url=settings.rerank_base_url,
            model=settings.rerank_model or "tei",
            api_key=settings.rerank_api_key,
        )
    make = CohereReranker if settings.rerank_kind == "cohere" else DashScopeReranker
    return make(
        base_url=settings.rerank_base_url, model=settings.rerank_model, api_key=settings.rerank_api_key
    )
