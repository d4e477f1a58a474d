"""Settings to a wired application: the only place that picks classes.

Every part is made at first need and closed in reverse order, so that `ragstone list`
loads no model and `ragstone parse` starts no database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

from ragstone.clean import clean
from ragstone.ingest import IngestPipeline
from ragstone.kb.settings import Settings
from ragstone.parse.router import PARSER_REVISION
from ragstone.parse.sandbox import ParserPool
from ragstone.postgres.pool import Database
from ragstone.protocols import ChatModel, Embedder
from ragstone.split import RecursiveSplitter
from ragstone.store.postgres import PostgresStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something long has begun or moves on: a message key with its values, and the share done."""

    key: str
    values: dict[str, object] = field(default_factory=dict[str, object])
    fraction: float | None = None


class App:
    """The parts of one application, by need."""

    def __init__(self, settings: Settings, on_notice: Callable[[Notice], None] | None = None) -> None:
        self.settings = settings
        self._on_notice = on_notice
        self._stack = AsyncExitStack()
        self._made: dict[str, Any] = {}
        self._lock = anyio.Lock()

    def notify(self, key: str, fraction: float | None = None, **values: object) -> None:
        if self._on_notice is not None:
            self._on_notice(Notice(key=key, values=values, fraction=fraction))

    async def database(self) -> Database:
        return await self._once("database", self._open_database)

    async def store(self) -> PostgresStore:
        database = await self.database()
        return await self._once("store", lambda: PostgresStore.open(database))

    async def embedder(self) -> Embedder:
        return await self._once("embedder", self._open_embedder)

    async def parser(self) -> ParserPool:
        return await self._once("parser", self._open_parser)

    async def chat(self) -> ChatModel | None:
        """The chat model of the settings; None is a normal state."""
        return await self._once("chat", self._open_chat) if self.settings.chat_base_url else None

    async def ingest(self) -> IngestPipeline:
        settings, embedder = self.settings, await self.embedder()
        return IngestPipeline(
            parse=await self.parser(),
            clean=[clean],
            split=RecursiveSplitter(
                max_size=settings.chunk_size, overlap=settings.chunk_overlap, tokenizer=embedder.tokenizer
            ),
            embedder=embedder,
            store=await self.store(),
            settings=f"{PARSER_REVISION}/{settings.chunk_size}/{settings.chunk_overlap}",
            parsers=settings.parse_workers,
        )

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    async def _once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            if name not in self._made:
                self._made[name] = await make()
            return self._made[name]
