"""Ragstone: answers from your own documents, in Chinese and English, with checked sources."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ragstone.assistant import Assistant
    from ragstone.augment import CitedContext
    from ragstone.cite import cite
    from ragstone.clean import clean
    from ragstone.errors import RagstoneError
    from ragstone.expand import Decompose, MultiQuery
    from ragstone.fuse import reciprocal_rank, two_stage, weighted
    from ragstone.generate import ExtractiveGenerator, ModelGenerator
    from ragstone.ingest import IngestPipeline, IngestResult
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.memory import WindowMemory
    from ragstone.query import QueryPipeline
    from ragstone.rerank import Rerank
    from ragstone.retrieve.store import StoreRetriever
    from ragstone.route import LanguageModelRouter, Route
    from ragstone.split import RecursiveSplitter
    from ragstone.store.memory import MemoryStore
    from ragstone.sync import Blocking
    from ragstone.transform import Compress, HyDE, PreviousTurn, Rewrite, StepBack, Translate
    from ragstone.types import (
        Answer,
        Blob,
        Chunk,
        Citation,
        Delta,
        Document,
        Hit,
        Message,
        Prompt,
        Query,
        Scope,
        Score,
        SearchResult,
        Vectors,
    )
    from ragstone.widen import Neighbours

__all__ = [
    "Answer",
    "Assistant",
    "Blob",
    "Blocking",
    "Chunk",
    "Citation",
    "CitedContext",
    "Compress",
    "Decompose",
    "Delta",
    "Document",
    "ExtractiveGenerator",
    "Hit",
    "HyDE",
    "IngestPipeline",
    "IngestResult",
    "LanguageModelRouter",
    "MemoryStore",
    "Message",
    "ModelGenerator",
    "MultiQuery",
    "Neighbours",
    "PreviousTurn",
    "Prompt",
    "Query",
    "QueryPipeline",
    "RagstoneError",
    "RecursiveSplitter",
    "Rerank",
    "Rewrite",
    "Route",
    "Scope",
    "Score",
    "SearchResult",
    "StepBack",
    "StoreRetriever",
    "Translate",
    "Vectors",
    "WindowMemory",
    "cite",
    "clean",
    "open",
    "reciprocal_rank",
    "two_stage",
    "weighted",
]

_MODULES = {
    "Assistant": "assistant",
    "Blocking": "sync",
    "CitedContext": "augment",
    "Compress": "transform",
    "Decompose": "expand",
    "ExtractiveGenerator": "generate",
    "HyDE": "transform",
    "IngestPipeline": "ingest",
    "IngestResult": "ingest",
    "LanguageModelRouter": "route",
    "MemoryStore": "store.memory",
    "ModelGenerator": "generate",
    "MultiQuery": "expand",
    "Neighbours": "widen",
    "PreviousTurn": "transform",
    "QueryPipeline": "query",
    "RagstoneError": "errors",
    "RecursiveSplitter": "split",
    "Rerank": "rerank",
    "Rewrite": "transform",
    "Route": "route",
    "StepBack": "transform",
    "StoreRetriever": "retrieve.store",
    "Translate": "transform",
    "WindowMemory": "memory",
    "cite": "cite",
    "clean": "clean",
    "reciprocal_rank": "fuse",
    "two_stage": "fuse",
    "weighted": "fuse",
}


def open(  # noqa: A001 (called as ragstone.open)
    where: str | Path | None = None, **settings: object
) -> Blocking[KnowledgeBases]:
    """Open knowledge bases for blocking use: `with ragstone.open() as kb: kb.ask("...")`.

    `where` is a folder that holds all state (default: RAGSTONE_HOME, else the platform's
    folder for data) or the `postgresql://` address of a server. `settings` are those of
    `ragstone config`, such as `chunk_size=200`; they win over environment and file.

    Raises:
        MissingExtra: `ragstone[kb]` is not installed.
        InvalidSetting: a setting that does not exist or has a wrong value.
    """
    from ragstone.sync import Blocking

    try:
        from ragstone.kb.facade import KnowledgeBases
        from ragstone.kb.settings import load
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragstone"):
            raise
        from ragstone.errors import MissingExtra

        raise MissingExtra("core.missing_extra", feature="ragstone.open", extra="kb") from error
    if where is not None:
        text = str(where)
        settings["database_url" if text.startswith(("postgres://", "postgresql://")) else "home"] = text
    loaded = load(overrides=settings)
    return Blocking(lambda: KnowledgeBases.open(loaded))


def __getattr__(name: str) -> object:
    # Loaded at first use: `import ragstone` costs no numpy and no adapter.
    if name not in __all__:
        raise AttributeError(f"module 'ragstone' has no attribute {name!r}")
    value = getattr(import_module(f"ragstone.{_MODULES.get(name, 'types')}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps `cite` and `clean` the functions when the modules of these names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
