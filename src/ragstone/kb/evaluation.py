"""A dataset through the application: indexed, asked, measured."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ragstone.evaluate import Dataset, Passage, means, measures, ranking
from ragstone.ingest import IngestEvent, IngestResult
from ragstone.kb.bootstrap import App
from ragstone.retrieve.store import SearchMode
from ragstone.types import Blob, Document, Hit, Query, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Progress: so many questions of all have been asked."""

    questions: int
    total: int


EvaluationEvent: TypeAlias = IngestEvent | Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Means over the questions, and what they cost.

    `index_s` and `index_cpu_s` cover splitting, embedding and storing; the CPU seconds are
    those of this process, without a database server's. Times of a question are its whole
    search, embedding included.
    """

    queries: int
    metrics: dict[str, float]
    index_s: float
    index_cpu_s: float
    queries_per_s: float
    p50_ms: float
    p95_ms: float
    passages: int
    failed: int


async def evaluated(
    app: App,
    dataset: Dataset,
    *,
    base_id: str,
    mode: SearchMode,
    on_event: Callable[[EvaluationEvent], None] | None = None,
) -> Evaluation:
    """Put the passages into the base, ask every question of it, and measure the rankings."""
    measures({}, {})  # the missing package is named before an hour of indexing
    started, cpu = time.perf_counter(), time.process_time()
    indexed = await index(app, dataset.passages, base_id=base_id, on_event=on_event)
    index_s, index_cpu_s = time.perf_counter() - started, time.process_time() - cpu
    rankings, seconds = await ask(app, dataset, base_id=base_id, mode=mode, on_event=on_event)
    return Evaluation(
        queries=len(rankings),
        metrics=means(measures(rankings, dataset.relevant)),
        index_s=index_s,
        index_cpu_s=index_cpu_s,
        queries_per_s=len(seconds) / max(sum(seconds), 1e-9),
        p50_ms=percentile(seconds, 50) * 1_000,
        p95_ms=percentile(seconds, 95) * 1_000,
        passages=len(dataset.passages),
        failed=indexed.count("failed"),
    )


async def index(
    app: App,
    passages: Sequence[Passage],
    *,
    base_id: str,
    on_event: Callable[[EvaluationEvent], None] | None = None,
) -> IngestResult:
    """Put passages into the base, each a document whose uri is its corpus id."""
    pipeline = await app.ingest(parse=_document)

    async def blobs() -> AsyncIterator[Blob]:
        for passage in passages:
            data = json.dumps([passage.title, passage.text]).encode()
            yield Blob(uri=passage.corpus_id, name=passage.corpus_id, data=data)

    return await pipeline.run(blobs(), base_id=base_id, on_event=on_event)


async def ask(
    app: App,
    dataset: Dataset,
    *,
    base_id: str,
    mode: SearchMode,
    on_event: Callable[[EvaluationEvent], None] | None = None,
) -> tuple[dict[str, list[str]], list[float]]:
    """Query id -> corpus ids, best first, and the seconds of each search."""
    rankings: dict[str, list[str]] = {}
    seconds: list[float] = []
    for number, question in enumerate(dataset.questions, 1):
        rankings[question.query_id] = []
        started = time.perf_counter()
        if question.text.strip():
            query = Query(question.text, history=question.history, scope=Scope(bases=(base_id,)))
            rankings[question.query_id] = await _ranked(app, mode, query)
        seconds.append(time.perf_counter() - started)
        if on_event is not None:
            on_event(Asked(questions=number, total=len(dataset.questions)))
    return rankings, seconds


async def _document(blob: Blob) -> Document:
    title, text = json.loads(blob.data)
    # A passage of a title alone is found by its title.
    return Document(text=text if text.strip() else title, title=title, uri=blob.uri, media_type="text/plain")


async def _ranked(app: App, mode: SearchMode, query: Query) -> list[str]:
    async def search(top_k: int) -> Sequence[Hit]:
        pipeline = await app.search(mode, top_k, None)
        return (await pipeline.search(query)).hits

    return await ranking(search, lambda hit: hit.uri)


def percentile(values: Sequence[float], percent: int) -> float:
    """The least value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
