"""The query path: transform -> expand -> route -> retrieve -> fuse -> rerank -> select
-> augment -> generate -> cite.

Every stage but the retriever, the augmenter and the generator is optional and does
nothing when left out. However a question is reworded, it is searched with as it was
asked too; rerank and select judge by the question, not by its rewordings.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import anyio
from anyio import to_thread

from ragstone.cite import cite
from ragstone.errors import InvalidQuery, InvalidStage, ModelError, ProviderError, first_error
from ragstone.fuse import reciprocal_rank
from ragstone.generate import NO_ANSWER, ModelGenerator, visible
from ragstone.language import language_of
from ragstone.prompts import Wording, refusal
from ragstone.protocols import (
    Augmenter,
    ChatModel,
    Expander,
    Fuser,
    Generator,
    Retriever,
    Router,
    Selector,
    Transformer,
)
from ragstone.readback import normalised
from ragstone.retrieve.compose import checked_seconds
from ragstone.retrieve.fanout import side_by_side
from ragstone.trace import Trace
from ragstone.transform import STANDALONE
from ragstone.types import (
    Answer,
    AnswerMode,
    Delta,
    Done,
    Event,
    Hit,
    Prompt,
    Query,
    Scope,
    SearchResult,
    Sources,
    StageDone,
    Usage,
)

CONCURRENCY = 8
"""Searches at once for one question: four wordings with two retrievers."""

RETRIEVER_SECONDS = 30.0
"""What a search may take before the answer goes on without it."""

MAX_ANSWER = 64_000
"""Characters of an answer, a model's reasoning counted: one that loops is stopped there."""

FOLLOW_UP_WEIGHT = 0.5
"""A follow-up such as "and its price?" finds little by itself: behind what its standalone form found."""


@dataclass(frozen=True, kw_only=True)
class QueryPipeline:
    """Answers questions from what its retrievers find.

    Give `retrievers`, or a `route` that chooses them for each question. Questions and
    retrievers are searched side by side, at most `concurrency` at once; one that fails or
    takes longer than `retriever_seconds` is left out and the answer marked
    `retriever_failed`. The rankings of each question go through `fuse`, then those of the
    questions through `fuse_queries`. `select` stages run in order on the fused hits.

    Nothing found is a refusal, without asking `generate`; an augmenter with an attribute
    `allow_empty` that is true makes a prompt all the same. `refusal` replaces the words of a
    refusal.

    An answer that reaches the model's own limit, or `max_answer` characters, is `partial` and marked
    `answer_cut`.

    When `generate` fails before its first word and there is a `fallback`, the fallback
    answers and the answer is marked `chat_failed`. A generator that quotes has an
    attribute `mode = "extractive"`; any other is a model.
    """

    augment: Augmenter
    generate: Generator | ChatModel
    retrievers: Sequence[Retriever] = ()
    route: Router | None = None
    transform: Sequence[Transformer] = ()
    expand: Expander | None = None
    fuse: Fuser = reciprocal_rank
    fuse_queries: Fuser = reciprocal_rank
    rerank: Selector | None = None
    select: Sequence[Selector] = ()
    fallback: Generator | ChatModel | None = None
    refusal: Wording | None = None
    concurrency: int = CONCURRENCY
    retriever_seconds: float = RETRIEVER_SECONDS
    max_answer: int = MAX_ANSWER

    def __post_init__(self) -> None:
        if not self.retrievers and self.route is None:
            raise InvalidStage("query.no_retriever")
        # A chat model is what most people mean by what generates.
        for name in ("generate", "fallback"):
            model = getattr(self, name)
            if model is not None and not callable(model) and hasattr(model, "stream"):
                object.__setattr__(self, name, ModelGenerator(model))
        if self.concurrency < 1:
            raise InvalidStage("query.concurrency", value=self.concurrency)
        checked_seconds(self.retriever_seconds)

    async def search(self, query: Query | str) -> SearchResult:
        """The passages an answer would be written from, without writing it."""
        query = _question(query)
        run = _Run(_mode(self.generate))
        async with aclosing(self._find(query, run)) as stages:
            async for _ in stages:
                pass
        return SearchResult(
            hits=tuple(run.hits),
            retrieved=run.retrieved,
            degraded=tuple(run.trace.degraded),
            trace=tuple(run.trace.steps),
        )

    async def ask(self, query: Query | str) -> Answer:
        """The finished answer: the last event of `stream`."""
        async with aclosing(self.stream(query)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.answer
        raise AssertionError("stream() ends with Done")

    async def stream(self, query: Query | str) -> AsyncGenerator[Event, None]:
        """The answer as it comes: stages, sources, deltas, and `Done` last.

        Raises:
            ProviderError: the chat model failed after its first word, or failed and there
                is no fallback. StoreError: the store cannot be searched.
        """
        query = _question(query)
        run = _Run(_mode(self.generate))
        async with aclosing(self._find(query, run)) as stages:
            async for stage in stages:
                yield stage
        prompt = await self._prompt(query, run)
        yield Sources(hits=tuple(run.hits))
        if prompt is not None:
            async with aclosing(self._write(prompt, run)) as deltas:
                async for delta in deltas:
                    yield delta
        answer = await self._finish(query, run)
        if not answer.answered:
            yield Delta(text=answer.text)
        yield Done(answer=answer)

    async def _find(self, query: Query, run: _Run) -> AsyncGenerator[StageDone, None]:
        asked = query
        for transform in self.transform:
            with run.trace.stage("transform"):
                query = _within(query.scope, await transform(query))
            yield run.stage_done()
        queries = [query]
        if self.expand is not None:
            with run.trace.stage("expand"):
                queries = [_within(query.scope, one) for one in await self.expand(query)]
            yield run.stage_done()
        standalone = str(query.context.get(STANDALONE) or asked.text)
        question = replace(asked, text=standalone, context=query.context, scope=query.scope)
        queries = _distinct(queries, question)
        if follow_up := normalised(standalone) != normalised(asked.text):
            queries.append(replace(question, text=asked.text))
        async with aclosing(self._retrieve(queries, run)) as stages:
            async for stage in stages:
                yield stage
        with run.trace.stage("fuse"):
            run.hits = self._fused(run.rankings, follow_up)
            run.retrieved = tuple(run.hits)
        yield run.stage_done()
        for name, select in self._selectors():
            before = len(run.hits)
            with run.trace.stage(name) as detail:
                run.hits = await select(question, run.hits)
                detail.update({"from": before, "to": len(run.hits)})
            yield run.stage_done()

    def _selectors(self) -> list[tuple[str, Selector]]:
        rerank = [("rerank", self.rerank)] if self.rerank is not None else []
        return [*rerank, *(("select", select) for select in self.select)]

    async def _retrieve(self, queries: Sequence[Query], run: _Run) -> AsyncGenerator[StageDone, None]:
        """The rankings of each query, into `run.rankings`."""
        chosen: list[Sequence[Retriever]] = [self.retrievers for _ in queries]
        if self.route is not None:
            with run.trace.stage("route") as detail:
                chosen = await self._routed(self.route, queries)
                detail["retrievers"] = [len(retrievers) for retrievers in chosen]
            yield run.stage_done()
        calls = [
            (query, retriever)
            for query, retrievers in zip(queries, chosen, strict=True)
            for retriever in retrievers
        ]
        with run.trace.stage("retrieve") as detail:
            found = await side_by_side(calls, concurrency=self.concurrency, seconds=self.retriever_seconds)
            detail["hits"] = [len(ranking) for ranking in found]
            rankings = iter(found)
            run.rankings = [[next(rankings) for _ in retrievers] for retrievers in chosen]
        yield run.stage_done()

    async def _routed(self, route: Router, queries: Sequence[Query]) -> list[Sequence[Retriever]]:
        chosen: list[Sequence[Retriever]] = [() for _ in queries]
        limiter = anyio.Semaphore(self.concurrency)

        async def choose(index: int, query: Query) -> None:
            async with limiter:
                chosen[index] = await route(query)

        try:
            async with anyio.create_task_group() as tasks:
                for index, query in enumerate(queries):
                    tasks.start_soon(choose, index, query)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return chosen

    def _fused(self, rankings: Sequence[Sequence[list[Hit]]], follow_up: bool) -> list[Hit]:
        """Per question over its retrievers, then over the questions; a follow-up's own wording last."""
        per_query = [_one(self.fuse, ranking) for ranking in rankings]
        if not follow_up:
            return _one(self.fuse_queries, per_query)
        reworded = _one(self.fuse_queries, per_query[:-1])
        return reciprocal_rank([reworded, per_query[-1]], weights=(1.0, FOLLOW_UP_WEIGHT))

    async def _prompt(self, query: Query, run: _Run) -> Prompt | None:
        """What the generator is asked; None when nothing was found and the augmenter does not allow that."""
        if not run.hits and not getattr(self.augment, "allow_empty", False):
            return None
        with run.trace.stage("augment") as detail:
            prompt = await self.augment(query, run.hits)
            detail["passages"] = len(prompt.passages)
        # An augmenter may leave passages out; markers count those that are in.
        run.hits = list(prompt.passages)
        return prompt

    async def _write(self, prompt: Prompt, run: _Run) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(self._attempt(cast(Generator, self.generate), prompt, run)) as deltas:
                async for delta in deltas:
                    yield delta
        except (ProviderError, ModelError):
            if self.fallback is None or run.text:
                raise
            run.trace.degrade("chat_failed")
            async with aclosing(self._attempt(cast(Generator, self.fallback), prompt, run)) as deltas:
                async for delta in deltas:
                    yield delta

    async def _attempt(self, generate: Generator, prompt: Prompt, run: _Run) -> AsyncGenerator[Delta, None]:
        run.mode = _mode(generate)
        verbatim = run.mode == "extractive"
        stream = visible(generate(prompt), len(prompt.passages), verbatim=verbatim, limit=self.max_answer)
        async with aclosing(stream), aclosing(run.trace.stream("generate", stream)) as deltas:
            async for delta in deltas:
                run.usage = run.usage + delta.usage if delta.usage else run.usage
                if delta.text and delta.text != NO_ANSWER:
                    run.text += delta.text
                    yield delta
        run.answered, run.text, run.removed = stream.answered, stream.text, stream.removed
        if stream.cut:
            run.partial = True
            run.trace.degrade("answer_cut")

    async def _finish(self, query: Query, run: _Run) -> Answer:
        with run.trace.stage("cite") as detail:
            cited = None
            if run.answered:
                # Comparing a long answer with its passages is work for a thread.
                cited = await to_thread.run_sync(partial(cite, run.text, run.hits, removed=run.removed))
            detail["citations"] = len(cited.citations) if cited else 0
        return Answer(
            text=cited.text if cited else refusal(language_of(query.text), self.refusal),
            mode=run.mode,
            answered=run.answered,
            partial=run.partial,
            citations=cited.citations if cited else (),
            hits=tuple(run.hits),
            retrieved=run.retrieved,
            degraded=tuple(run.trace.degraded),
            audit=cited.audit if cited else {},
            usage=run.trace.usage + run.usage,
            trace=tuple(run.trace.steps),
        )


def _question(query: Query | str) -> Query:
    """A text is a question without more."""
    if isinstance(query, str):
        return Query(query)
    if not isinstance(query, Query):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQuery("core.query_type", value=repr(query)[:80])
    return query


def _within(scope: Scope, query: Query) -> Query:
    """`query` with no more to see than `scope`, which a stage that makes a new question may forget."""
    return query if query.scope == scope else replace(query, scope=scope & query.scope)


def _distinct(queries: Sequence[Query], question: Query) -> list[Query]:
    """The queries, the first of those that ask the same of the same (row W01), and the question itself."""
    found: list[Query] = []
    scopes: dict[str, list[Scope]] = {}
    for query in queries:
        seen = scopes.setdefault(normalised(query.text), [])
        if query.scope not in seen:
            seen.append(query.scope)
            found.append(query)
    return found if normalised(question.text) in scopes else [*found, question]


def _one(fuse: Fuser, rankings: Sequence[list[Hit]]) -> list[Hit]:
    """Several rankings fused; one stays as it is."""
    return fuse(rankings) if len(rankings) > 1 else list(rankings[0]) if rankings else []


def _mode(generate: Generator | ChatModel) -> AnswerMode:
    return getattr(generate, "mode", "model")


class _Run:
    """What one question has come to so far."""

    def __init__(self, mode: AnswerMode) -> None:
        self.trace = Trace()
        self.mode: AnswerMode = mode
        self.rankings: list[list[list[Hit]]] = []
        self.hits: list[Hit] = []
        self.retrieved: tuple[Hit, ...] = ()
        self.text = ""
        self.answered = False
        self.partial = False
        self.removed: list[int] = []
        self.usage = Usage()

    def stage_done(self) -> StageDone:
        return StageDone(step=self.trace.steps[-1])
