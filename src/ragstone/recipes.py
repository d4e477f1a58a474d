"""Ready-made pipelines: existing blocks, put together for two common services.

    service             a knowledge-base service: short questions, rewriting with a way back, refusals
    retrieve_and_rerank a funnel: many candidates, a closer look, few passages

Each returns a `QueryPipeline`; `dataclasses.replace` changes any stage of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ragstone.augment import CitedContext
from ragstone.confirm import confirmed, effective
from ragstone.errors import InvalidStage
from ragstone.generate import ExtractiveGenerator, ModelGenerator
from ragstone.protocols import (
    Augmenter,
    ChatModel,
    Embedder,
    Generator,
    Reranker,
    Retriever,
    Store,
    Transformer,
)
from ragstone.query import QueryPipeline
from ragstone.rerank import Rerank
from ragstone.retrieve.compose import first_effective
from ragstone.retrieve.store import StoreRetriever
from ragstone.select import TokenBudget
from ragstone.transform import STANDALONE, Compress, Rewrite
from ragstone.types import Hit, Query, Scope

T = TypeVar("T")

SHORT, MEDIUM = 4, 12
"""Characters without white space up to which a question is short, and of medium length (row A54)."""

CONTEXT_TOKENS = 3_000
"""The most that passages may take of the prompt (row W30)."""

ASKED = "question_asked"
"""Key of `Query.context`: the question as it was asked, for what is decided by it under any wording."""


@dataclass(frozen=True, slots=True)
class ByLength(Generic[T]):
    """A parameter by the length of the question as asked, white space left out (row A54).

    `short` is for up to 4 characters, `medium` for up to 12, `long` for more: a word or two may mean
    much and needs a wider search. Give it to `StoreRetriever` as `top_k` or `min_score`. Of a
    follow-up the standalone form counts.

    Raises:
        InvalidStage: the two lengths do not ascend from 1.
    """

    short: T
    medium: T
    long: T
    short_length: int = SHORT
    medium_length: int = MEDIUM

    def __post_init__(self) -> None:
        if not 1 <= self.short_length < self.medium_length:
            raise InvalidStage("recipes.lengths", short=self.short_length, medium=self.medium_length)

    def __call__(self, query: Query) -> T:
        length = len(re.sub(r"\s", "", question_of(query)))
        if length <= self.short_length:
            return self.short
        return self.medium if length <= self.medium_length else self.long


TOP_K = ByLength(20, 12, 8)
"""As the service this is modelled on."""

MIN_SCORE: Mapping[str, ByLength[float]] = {"multilingual-e5-small": ByLength(0.40, 0.33, 0.33)}
"""On the scale `late`, by the first part of `Embedder.identity` (decision of row W32: a least score
belongs to a model). Measured in benchmarks/results/service.md."""


def question_of(query: Query) -> str:
    """The question that a search belongs to, under whatever wording: as asked, of a follow-up its
    standalone form."""
    return str(query.context.get(STANDALONE) or query.context.get(ASKED) or query.text)


def service(
    store: Store,
    embedder: Embedder,
    chat: ChatModel | None = None,
    *,
    scope: Scope | None = None,
    rewrite: bool = True,
    in_turn: bool = False,
    top_k: Callable[[Query], int] = TOP_K,
    min_score: Callable[[Query], float | None] | None = None,
    augment: Augmenter | None = None,
    context_tokens: int = CONTEXT_TOKENS,
) -> QueryPipeline:
    """Retrieval of a knowledge-base service (rows A41, A42, A54 to A56, W12 to W14, W32).

    A follow-up is made to stand alone, any other question is reworded; with `rewrite` False, without
    a chat model or when that fails the question stays. The candidates [reworded, as asked] are
    searched side by side and fused; with `in_turn` one after the other until one is effective. How
    many hits and which least score depends on the length of the question. A question that is a
    single term is confirmed by a passage that holds it (`ragstone.confirm`). All of this is decided
    by the question as asked. Nothing effective: a refusal, without asking the chat model.

    `scope` is what may be searched at most; a question's own scope narrows it. `min_score` is on the
    scale `late` (`hybrid` for models without token vectors); the default was measured for the
    local model (`MIN_SCORE`), other models have none.
    Without a chat model the answer is quoted.
    """
    measured = MIN_SCORE.get(embedder.identity.partition("/")[0])
    retriever: Retriever = StoreRetriever(
        store=store,
        embedder=embedder,
        top_k=top_k,
        min_score=min_score or measured,
        scope=scope or Scope(),
    )
    transform: list[Transformer] = [_remember]
    if chat is not None and rewrite:
        transform.append(Compress(chat))
        reword = _Reword(chat)
        if in_turn:
            retriever = first_effective(retriever, reword.candidates, effective=_effective)
        else:
            transform.append(reword)

    async def best(query: Query, hits: list[Hit]) -> list[Hit]:
        return hits[: top_k(query)]

    pipeline = _answering(retriever, embedder, chat, augment)
    return replace(pipeline, transform=transform, select=[confirmed, best, TokenBudget(context_tokens)])


def retrieve_and_rerank(
    store: Store,
    embedder: Embedder,
    reranker: Reranker,
    chat: ChatModel | None = None,
    *,
    scope: Scope | None = None,
    candidates: int = 20,
    top_n: int = 5,
    min_score: float | None = 0.1,
    augment: Augmenter | None = None,
    context_tokens: int = CONTEXT_TOKENS,
) -> QueryPipeline:
    """Many candidates from the store, a closer look, few passages (rows A58, A64 to A68, W24).

    The reranker scores `candidates` hits; the `top_n` best that reach `min_score` go on, in its
    order. When it fails, the order of the search stands and the answer is marked
    `reranker_failed`. None left: a refusal, without asking the chat model. The answer holds both
    lists: `hits` after reranking, `retrieved` before it. `pipeline.search` does all of this without
    an answer.

    Raises:
        InvalidQuery, InvalidStage: as `Rerank`.
    """
    retriever = StoreRetriever(store=store, embedder=embedder, top_k=candidates, scope=scope or Scope())
    pipeline = _answering(retriever, embedder, chat, augment)
    return replace(
        pipeline,
        rerank=Rerank(reranker, top_n=top_n, min_score=min_score, candidates=candidates),
        select=[TokenBudget(context_tokens)],
    )


def _answering(
    retriever: Retriever, embedder: Embedder, chat: ChatModel | None, augment: Augmenter | None
) -> QueryPipeline:
    """Written by the chat model, quoted where there is none or it fails."""
    extractive: Generator = ExtractiveGenerator(embedder)
    return QueryPipeline(
        retrievers=[retriever],
        augment=augment or CitedContext(),
        generate=extractive if chat is None else ModelGenerator(chat),
        fallback=None if chat is None else extractive,
    )


def _effective(query: Query, hits: Sequence[Hit]) -> bool:
    return effective(replace(query, text=question_of(query)), hits)


async def _remember(query: Query) -> Query:
    return replace(query, context={**query.context, ASKED: query.text})


class _Reword:
    """`Rewrite` for questions without a history: of others `Compress` has made what can be searched."""

    def __init__(self, chat: ChatModel) -> None:
        self._rewrite = Rewrite(chat)

    async def __call__(self, query: Query) -> Query:
        return query if query.history else await self._rewrite(query)

    async def candidates(self, query: Query) -> list[Query]:
        """[reworded, as asked], or the one where both are the same (row A42)."""
        reworded = await self(query)
        return [query] if reworded is query else [reworded, query]
