"""Follow-up questions without a chat model: what the question before adds to the search.

    python benchmarks/follow_ups.py [FOLDER] [--questions N] [--passages N] [--cache FOLDER]

FOLDER (default: ../shared/data/retrieval/mtrag_un) is a dataset whose questions have a
history. The passages that answer the questions asked, and so many others, are indexed.
Compares hybrid search with the last turn alone, with the previous user turn in front of
it, and with both, as the pipeline fuses them. Writes benchmarks/results/follow_ups.md.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from ragstone.evaluate import Dataset, means, measures, ranking, read_dataset
from ragstone.fuse import reciprocal_rank
from ragstone.kb import bases
from ragstone.kb.evaluation import index
from ragstone.kb.facade import KnowledgeBases
from ragstone.protocols import Transformer
from ragstone.query import QueryPipeline
from ragstone.transform import STANDALONE, PreviousTurn
from ragstone.types import Hit, Query, Scope
from retrieval import CACHE, SETS, CachingApp, Values

RESULTS = Path(__file__).parent / "results" / "follow_ups.md"
SHOWN = ("hit@1", "recall@5", "recall@10", "mrr@10")
BASELINE = "last turn"


async def equal(query: Query) -> Query:
    """As `PreviousTurn`, but the question alone counts as much as with the one before it."""
    joined = await PreviousTurn()(query)
    context = {name: value for name, value in joined.context.items() if name != STANDALONE}
    return replace(joined, context=context)


def smaller(data: Dataset, questions: int, passages: int) -> Dataset:
    """So many questions with a history, what answers them, and the first of the other passages."""
    asked = [item for item in data.questions if any(turn.role == "user" for turn in item.history)]
    data = replace(data, questions=tuple(asked)).first(questions)
    wanted = {corpus_id for item in data.questions for corpus_id in data.relevant[item.query_id]}
    needed = [passage for passage in data.passages if passage.corpus_id in wanted]
    others = [passage for passage in data.passages if passage.corpus_id not in wanted]
    return replace(data, passages=tuple(needed + others[: max(0, passages - len(needed))]))


async def run(app: CachingApp, data: Dataset) -> dict[str, Values]:
    name = "set-follow-ups"
    await app.store()
    base_id = await bases.ensure(await app.database(), name)
    try:
        await index(app, data.passages, base_id=base_id)
        found: dict[str, Values] = {}
        for label, stages in VARIANTS.items():
            rankings: dict[str, list[str]] = {}
            for item in data.questions:
                query = Query(item.text, history=item.history)
                if stages is None:
                    query = Query((await PreviousTurn()(query)).text)
                rankings[item.query_id] = await _ranked(app, query, base_id, stages or [])
            found[label] = measures(rankings, data.relevant)
        return found
    finally:
        await KnowledgeBases(app).remove_base(name)


VARIANTS: dict[str, list[Transformer] | None] = {
    BASELINE: [],
    "previous turn + last turn, joined only": None,
    "both, equal": [equal],
    "both, the last turn alone at half": [PreviousTurn()],
}


async def _ranked(app: CachingApp, query: Query, base_id: str, stages: list[Transformer]) -> list[str]:
    async def search(top_k: int) -> Sequence[Hit]:
        pipeline: QueryPipeline = await app.search("hybrid", top_k, None)
        pipeline = replace(pipeline, transform=stages, fuse_queries=reciprocal_rank)
        result = await pipeline.search(replace(query, scope=Scope(bases=(base_id,))))
        return result.hits[:top_k]

    return await ranking(search, lambda hit: hit.uri)


def table(found: dict[str, Values]) -> list[str]:
    lines = [
        f"| searched | {' | '.join(SHOWN)} | mrr@10 - {BASELINE} (standard error) |",
        "|---" * (len(SHOWN) + 2) + "|",
    ]
    for label, values in found.items():
        mean = means(values)
        pairs = [row["mrr@10"] - found[BASELINE][query_id]["mrr@10"] for query_id, row in values.items()]
        error = statistics.stdev(pairs) / math.sqrt(len(pairs))
        numbers = " | ".join(f"{mean[name]:.3f}" for name in SHOWN)
        lines.append(f"| {label} | {numbers} | {statistics.fmean(pairs):+.3f} ({error:.3f}) |")
    return lines


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SETS / "mtrag_un")
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--passages", type=int, default=400)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"no set in {options.folder}: nothing to measure")
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    data = smaller(read_dataset(options.folder), options.questions, options.passages)
    app = CachingApp(options.cache)
    try:
        found = await run(app, data)
    finally:
        await app.aclose()
    lines = [
        "# Follow-up questions without a chat model",
        "",
        f"    python benchmarks/follow_ups.py --questions {options.questions} --passages {options.passages}",
        "",
        f"{options.folder.name}: {len(data.questions)} questions with a history, {len(data.passages)} "
        f"passages; hybrid search, multilingual-e5-small int8, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}.",
        "",
        *table(found),
    ]
    print("\n".join(lines))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    anyio.run(main)
