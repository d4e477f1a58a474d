"""The recipe `service` (`ragstone.recipes`) as the settings have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ragstone.augment import CitedContext
from ragstone.kb.settings import Settings
from ragstone.prompts import Wording
from ragstone.protocols import ChatModel, Embedder, Store
from ragstone.query import QueryPipeline
from ragstone.recipes import ByLength, service
from ragstone.rerank import Rerank
from ragstone.types import Query


def service_pipeline(
    settings: Settings,
    store: Store,
    embedder: Embedder,
    chat: ChatModel | None,
    rerank: Rerank | None,
    prompts: Mapping[str, Wording],
    *,
    top_k: int,
    min_score: float | None,
) -> QueryPipeline:
    """Answers with a width and a least score by the question's length (rows A41, A54).

    A `top_k` other than that of the settings was asked for, and holds for any length.
    """
    pipeline = service(
        store,
        embedder,
        chat,
        rewrite=settings.rewrite,
        top_k=_widths(settings, top_k),
        min_score=_least(settings, min_score),
        augment=CitedContext(template=prompts.get("answer"), empty=prompts.get("empty")),
        context_tokens=settings.context_tokens,
    )
    return replace(pipeline, rerank=rerank, refusal=prompts.get("refusal"))


def _widths(settings: Settings, top_k: int) -> ByLength[int]:
    if top_k != settings.top_k:
        return ByLength(top_k, top_k, top_k)
    lengths = settings.short_length, settings.medium_length
    return ByLength(settings.top_k_short, settings.top_k_medium, top_k, *lengths)


def _least(settings: Settings, min_score: float | None) -> Callable[[Query], float | None] | None:
    """None where nothing is set: then what was measured for the model counts."""
    short = min_score if settings.min_score_short is None else settings.min_score_short
    if short is None and min_score is None:
        return None
    lengths = settings.short_length, settings.medium_length
    return ByLength(short, min_score, min_score, *lengths)
