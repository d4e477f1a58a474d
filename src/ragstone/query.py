"""The query path: transform -> expand -> route -> retrieve -> fuse -> rerank -> select
-> augment -> generate -> cite.

Every stage but the retriever, the augmenter and the generator is optional and does
nothing when left out.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import anyio

from ragstone.cite import cite
from ragstone.errors import InvalidStage, ProviderError, first_error
from ragstone.fuse import reciprocal_rank
from ragstone.generate import NO_ANSWER, visible
from ragstone.language import language_of
from ragstone.prompts import refusal
from ragstone.protocols import (
    Augmenter,
    Expander,
    Fuser,
    Generator,
    Retriever,
    Router,
    Selector,
    Transformer,
)
from ragstone.trace import Trace
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
    Step,
    Usage,
)


@dataclass(frozen=True, kw_only=True)
class QueryPipeline:
    """Answers questions from what its retrievers find.

    Give `retrievers`, or a `route` that chooses them for each question. `select` stages
    run in order on the fused hits. When `generate` fails before its first word and there
    is a `fallback`, the fallback answers and the answer is marked `chat_failed`. A
    generator that quotes has an attribute `mode = "extractive"`; any other is a model.
    """

    augment: Augmenter
    generate: Generator
    retrievers: Sequence[Retriever] = ()
    route: Router | None = None
    transform: Sequence[Transformer] = ()
    expand: Expander | None = None
    fuse: Fuser = reciprocal_rank
    rerank: Selector | None = None
    select: Sequence[Selector] = ()
    fallback: Generator | None = None

    def __post_init__(self) -> None:
        if not self.retrievers and self.route is None:
            raise InvalidStage("query.no_retriever")

    async def search(self, query: Query) -> SearchResult:
        """The passages an answer would be written from, without writing it."""
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

    async def ask(self, query: Query) -> Answer:
        """The finished answer: the last event of `stream`."""
        async with aclosing(self.stream(query)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.answer
        raise AssertionError("stream() ends with Done")

    async def stream(self, query: Query) -> AsyncGenerator[Event, None]:
        """The answer as it comes: stages, sources, deltas, and `Done` last.

        Raises:
            ProviderError: the chat model failed after its first word, or failed and there
                is no fallback. StoreError: the store cannot be searched.
        """
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
        answer = self._finish(query, run)
        if not answer.answered:
            yield Delta(text=answer.text)
        yield Done(answer=answer)

    async def _find(self, query: Query, run: _Run) -> AsyncGenerator[StageDone, None]:
        for transform in self.transform:
            with run.trace.stage("transform"):
                query = _within(query.scope, await transform(query))
            yield run.stage_done()
        queries = [query]
        if self.expand is not None:
            with run.trace.stage("expand"):
                queries = [_within(query.scope, one) for one in await self.expand(query)]
            yield run.stage_done()
        with run.trace.stage("retrieve") as detail:
            rankings = await self._retrieve(queries)
            detail["hits"] = [len(ranking) for ranking in rankings]
        yield run.stage_done()
        with run.trace.stage("fuse"):
            run.hits = self.fuse(rankings) if len(rankings) > 1 else list(rankings[0])
            run.retrieved = tuple(run.hits)
        yield run.stage_done()
        for name, select in self._selectors():
            before = len(run.hits)
            with run.trace.stage(name) as detail:
                run.hits = await select(query, run.hits)
                detail.update({"from": before, "to": len(run.hits)})
            yield run.stage_done()

    def _selectors(self) -> list[tuple[str, Selector]]:
        rerank = [("rerank", self.rerank)] if self.rerank is not None else []
        return [*rerank, *(("select", select) for select in self.select)]

    async def _retrieve(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """One ranking for each query and retriever, in that order, found side by side."""
        calls = [
            (query, retriever)
            for query in queries
            for retriever in (await self.route(query) if self.route is not None else self.retrievers)
        ]
        rankings: list[list[Hit]] = [[] for _ in calls]

        async def retrieve(index: int, retriever: Retriever, query: Query) -> None:
            rankings[index] = await retriever(query)

        try:
            async with anyio.create_task_group() as tasks:
                for index, (query, retriever) in enumerate(calls):
                    tasks.start_soon(retrieve, index, retriever, query)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return rankings or [[]]

    async def _prompt(self, query: Query, run: _Run) -> Prompt | None:
        """What the generator is asked; None when nothing was found, for then nothing is."""
        if not run.hits:
            return None
        with run.trace.stage("augment") as detail:
            prompt = await self.augment(query, run.hits)
            detail["passages"] = len(prompt.passages)
        # An augmenter may leave passages out; markers count those that are in.
        run.hits = list(prompt.passages)
        return prompt

    async def _write(self, prompt: Prompt, run: _Run) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(self._attempt(self.generate, prompt, run)) as deltas:
                async for delta in deltas:
                    yield delta
        except ProviderError:
            if self.fallback is None or run.text:
                raise
            run.trace.degrade("chat_failed")
            async with aclosing(self._attempt(self.fallback, prompt, run)) as deltas:
                async for delta in deltas:
                    yield delta

    async def _attempt(self, generate: Generator, prompt: Prompt, run: _Run) -> AsyncGenerator[Delta, None]:
        run.mode = _mode(generate)
        stream = visible(generate(prompt), len(prompt.passages), verbatim=run.mode == "extractive")
        started = time.perf_counter()
        async with aclosing(stream):
            async for delta in stream:
                run.usage = run.usage + delta.usage if delta.usage else run.usage
                if delta.text and delta.text != NO_ANSWER:
                    run.text += delta.text
                    yield delta
        run.answered, run.text, run.removed = stream.answered, stream.text, stream.removed
        run.trace.steps.append(Step(stage="generate", seconds=time.perf_counter() - started))

    def _finish(self, query: Query, run: _Run) -> Answer:
        with run.trace.stage("cite") as detail:
            cited = cite(run.text, run.hits, removed=run.removed) if run.answered else None
            detail["citations"] = len(cited.citations) if cited else 0
        return Answer(
            text=cited.text if cited else refusal(language_of(query.text)),
            mode=run.mode,
            answered=run.answered,
            citations=cited.citations if cited else (),
            hits=tuple(run.hits),
            retrieved=run.retrieved,
            degraded=tuple(run.trace.degraded),
            audit=cited.audit if cited else {},
            usage=run.usage,
            trace=tuple(run.trace.steps),
        )


def _within(scope: Scope, query: Query) -> Query:
    """`query` with no more to see than `scope`, which a stage that makes a new question may forget."""
    return query if query.scope == scope else replace(query, scope=scope & query.scope)


def _mode(generate: Generator) -> AnswerMode:
    return getattr(generate, "mode", "model")


class _Run:
    """What one question has come to so far."""

    def __init__(self, mode: AnswerMode) -> None:
        self.trace = Trace()
        self.mode: AnswerMode = mode
        self.hits: list[Hit] = []
        self.retrieved: tuple[Hit, ...] = ()
        self.text = ""
        self.answered = False
        self.removed: list[int] = []
        self.usage = Usage()

    def stage_done(self) -> StageDone:
        return StageDone(step=self.trace.steps[-1])
