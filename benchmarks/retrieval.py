"""How well passages are found: every set of a folder, by vector, by text and by both.

    python benchmarks/retrieval.py [FOLDER] [--limit N] [--set NAME]... [--cache FOLDER]

FOLDER (default: ../shared/data/retrieval) holds dataset folders as `ragstone eval` reads
them; one without corpus.jsonl whose name ends in `_to_<language>` takes the corpus of its
neighbour in that language. Made of these: the paraphrases' questions of one language on
the passages of the other, and a base of both languages, `mixed_same` and `mixed_other`,
which holds each passage of xquad in one language only: that of the question, or the other.
The real store, splitter and model; vectors are kept in the cache folder, so that only the
first run embeds. Writes benchmarks/results/retrieval.md unless only some sets were run;
`--resume` takes what earlier runs measured with the same `--limit` from the cache folder.

The last columns compare hybrid search with the better of its halves, question by
question: the difference of the means and the standard error of that difference.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import pickle
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import numpy as np

from ragstone.evaluate import Dataset, Passage, Question, means, measures, read_dataset
from ragstone.kb import bases
from ragstone.kb.bootstrap import App
from ragstone.kb.evaluation import ask, index, percentile
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load
from ragstone.protocols import Embedder, Tokenizer
from ragstone.retrieve.store import SearchMode
from ragstone.types import Vectors

RESULTS = Path(__file__).parent / "results" / "retrieval.md"
SETS = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval"
CACHE = Path(tempfile.gettempdir()) / "ragstone-retrieval"
MODES: tuple[SearchMode, ...] = ("vector", "text", "hybrid")
CORPUS_OF = {"en": "xquad_en", "zh": "xquad_zh"}
# hit@1 that a plain BM25 reaches on these sets: full text alone must clear it.
FLOORS = {"xquad_en": 0.932, "xquad_zh": 0.920, "cmrc2018_trial": 0.976, "drcd_dev": 0.928, "mtrag_un": 0.716}
MARGIN = 0.005
ACROSS = 0.97
"""Recall@10 that is wanted of hybrid search where question and passages differ in language."""

Values = Mapping[str, Mapping[str, float]]


class KeptVectors:
    """An embedder that embeds a text once and finds its vector in a file from then on."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors (name TEXT PRIMARY KEY, data BLOB, tokens BLOB)"
        )

    @property
    def identity(self) -> str:
        return self._embedder.identity

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        return self._embedder.tokenizer

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return await self._embed("q", texts, self._embedder.embed_queries)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed("d", texts, self._embedder.embed_documents)

    def name(self, kind: str, text: str) -> str:
        return hashlib.sha256(f"{self.identity}\0{kind}\0{text}".encode("utf-8", "replace")).hexdigest()

    async def _embed(
        self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[Vectors]]
    ) -> Vectors:
        names = [self.name(kind, text) for text in texts]
        missing = {name: text for name, text in zip(names, texts, strict=True) if self._kept(name) is None}
        if missing:
            found = await embed(list(missing.values()))
            self.keep(list(missing), found)
        kept = [self._kept(name) or (b"", b"") for name in names]
        values = np.stack([np.frombuffer(data, dtype=np.float32) for data, _ in kept])
        kind_of = np.float32 if kind == "q" else np.uint8
        columns = self.dimension if kind == "q" else -(-self.dimension // 8)
        tokens = [np.frombuffer(data, dtype=kind_of).reshape(-1, columns) for _, data in kept]
        return Vectors(model=self.identity, values=values, token_vectors=tokens)

    def keep(self, names: Sequence[str], found: Vectors) -> None:
        values = found.values.astype(np.float32)
        tokens = [tokens.tobytes() for tokens in found.token_vectors] or [b""] * len(names)
        rows = [(name, row.tobytes(), held) for name, row, held in zip(names, values, tokens, strict=True)]
        self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)
        self._database.commit()

    def _kept(self, name: str) -> tuple[bytes, bytes] | None:
        return self._database.execute("SELECT data, tokens FROM vectors WHERE name = ?", (name,)).fetchone()

    async def aclose(self) -> None:
        self._database.close()


class CachingApp(App):
    """The application, its vectors kept in a file."""

    def __init__(self, cache: Path) -> None:
        super().__init__(load(overrides={"home": cache / "home"}))
        self._cache = cache

    async def _open_embedder(self) -> Embedder:
        kept = KeptVectors(await super()._open_embedder(), self._cache / "vectors.sqlite")
        self._stack.push_async_callback(kept.aclose)
        return kept


@dataclass
class Result:
    """One set: the questions' metrics by mode, and milliseconds a search."""

    name: str
    passages: int
    questions: int
    values: dict[str, Values]
    p50_ms: dict[str, float]

    def mean(self, mode: str, metric: str) -> float:
        return means(self.values[mode])[metric]

    def against_better_half(self, metric: str) -> tuple[float, float]:
        """(difference of hybrid to the better half, standard error of the paired difference)."""
        better = max(("vector", "text"), key=lambda mode: self.mean(mode, metric))
        pairs = [
            row[metric] - self.values[better][query_id][metric]
            for query_id, row in self.values["hybrid"].items()
        ]
        error = statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else 0.0
        return statistics.fmean(pairs), error


def dataset(folder: Path) -> Dataset:
    if (folder / "corpus.jsonl").exists():
        return read_dataset(folder)
    neighbour = CORPUS_OF[folder.name.rpartition("_to_")[2]]
    return read_dataset(folder, corpus=folder.parent / neighbour / "corpus.jsonl")


def datasets(folder: Path) -> dict[str, Callable[[], Dataset]]:
    """Every set of the folder and those made of them, by name."""
    names = sorted(path.parent.name for path in folder.glob("*/qrels.tsv"))
    found: dict[str, Callable[[], Dataset]] = {name: partial(dataset, folder / name) for name in names}
    if {"paraphrase_en", "paraphrase_zh"} <= set(names):
        for asked, other in (("en", "zh"), ("zh", "en")):
            found[f"paraphrase_{asked}_to_{other}"] = partial(
                read_dataset,
                folder / f"paraphrase_{asked}",
                corpus=folder / f"paraphrase_{other}" / "corpus.jsonl",
            )
    if {"xquad_en", "xquad_zh"} <= set(names):
        found["mixed_same"] = partial(mixed, folder, other=False)
        found["mixed_other"] = partial(mixed, folder, other=True)
    return found


def mixed(folder: Path, *, other: bool) -> Dataset:
    """Every second passage in English, the rest in Chinese; questions whose passage is in their
    language, or in the other one."""
    sets = [dataset(folder / name) for name in ("xquad_en", "xquad_zh")]
    passages: list[Passage] = []
    questions: list[Question] = []
    relevant: dict[str, Mapping[str, int]] = {}
    order = sorted(passage.corpus_id for passage in sets[0].passages)
    for place, data in enumerate(sets):
        held = set(order[place::2])
        passages += [passage for passage in data.passages if passage.corpus_id in held]
        for question in data.questions:
            right = data.relevant[question.query_id]
            if (next(iter(right)) in held) != other:
                name = f"{place}-{question.query_id}"
                questions.append(replace(question, query_id=name))
                relevant[name] = right
    return Dataset(passages=tuple(passages), questions=tuple(questions), relevant=relevant)


async def run(app: App, set_name: str, data: Dataset, limit: int | None) -> Result:
    if limit is not None:
        data = data.first(limit)
    knowledge, name = KnowledgeBases(app), f"set-{set_name}"
    await app.store()
    base_id = await bases.ensure(await app.database(), name)
    try:
        await index(app, data.passages, base_id=base_id)
        values: dict[str, Values] = {}
        p50_ms: dict[str, float] = {}
        embedder = await app.embedder()
        await embedder.embed_queries([item.text for item in data.questions if item.text.strip()])
        for mode in MODES:
            rankings, seconds = await ask(app, data, base_id=base_id, mode=mode)
            values[mode] = measures(rankings, data.relevant)
            p50_ms[mode] = percentile(seconds, 50) * 1_000
    finally:
        await knowledge.remove_base(name)
    return Result(set_name, len(data.passages), len(data.questions), values, p50_ms)


def table(results: Sequence[Result]) -> list[str]:
    lines = [
        "| set | passages / questions | mode | hit@1 | recall@1 | recall@5 | recall@10 | mrr@10 | ndcg@10 "
        "| p50 ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for mode in MODES:
            found = means(result.values[mode])
            first = f"{result.name} | {result.passages} / {result.questions}" if mode == MODES[0] else " | "
            numbers = " | ".join(f"{value:.3f}" for value in found.values())
            lines.append(f"| {first} | {mode} | {numbers} | {result.p50_ms[mode]:.1f} |")
    return lines


def verdicts(results: Sequence[Result]) -> list[str]:
    lines = [
        "| set | mrr@10: hybrid - better half | standard error | recall@10: hybrid - better half "
        "| standard error | within the goal | text hit@1 | floor |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        mrr, mrr_error = result.against_better_half("mrr@10")
        recall, recall_error = result.against_better_half("recall@10")
        met = mrr >= -MARGIN - mrr_error and recall >= -MARGIN - recall_error
        floor = FLOORS.get(result.name)
        text = result.mean("text", "hit@1")
        against = f"{text:.3f} | " + (
            "" if floor is None else f"{floor:.3f}{'' if text >= floor else ' missed'}"
        )
        lines.append(
            f"| {result.name} | {mrr:+.3f} | {mrr_error:.3f} | {recall:+.3f} | {recall_error:.3f} "
            f"| {'yes' if met else 'no'} | {against} |"
        )
    return lines


def goals(results: Sequence[Result]) -> list[str]:
    """Each goal, the sets that miss it, and by how much."""
    below: list[str] = []
    for result in results:
        for metric in ("mrr@10", "recall@10"):
            difference, error = result.against_better_half(metric)
            if (short := -MARGIN - error - difference) > 0:
                below.append(f"{result.name} by {short:.3f} on {metric}")
    across = {item.name: item.mean("hybrid", "recall@10") for item in results if "_to_" in item.name}
    far = [f"{name} by {ACROSS - found:.3f}" for name, found in across.items() if found < ACROSS]
    text = {item.name: item.mean("text", "hit@1") for item in results if item.name in FLOORS}
    under = [f"{name} by {FLOORS[name] - found:.3f}" for name, found in text.items() if found < FLOORS[name]]
    above = sum(result.against_better_half("mrr@10")[0] > 0 for result in results)

    def told(goal: str, missed: Sequence[str]) -> str:
        return f"- {goal}: " + (f"missed on {', '.join(missed)}." if missed else "met on every set.")

    return [
        told("Hybrid within the goal", below),
        f"- Hybrid above both halves on mrr@10: {above} of {len(results)} sets.",
        told(f"Recall@10 across languages (`_to_`) at least {ACROSS}", far),
        told("Full text alone at or above the floor", under),
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SETS)
    parser.add_argument("--limit", type=int, help="questions a set")
    parser.add_argument("--set", action="append", default=[], help="only this set; may be repeated")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--resume", action="store_true", help="measure only what is not in the cache folder")
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"no sets in {options.folder}: nothing to measure")
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    sets = {name: read for name, read in datasets(options.folder).items() if name in (options.set or [name])}
    app = CachingApp(options.cache)
    results: list[Result] = []
    try:
        for name, read in sets.items():
            started = time.perf_counter()
            kept = options.cache / f"{name}-{options.limit or 'all'}.pickle"
            if options.resume and kept.exists():
                results.append(pickle.loads(kept.read_bytes()))
            else:
                results.append(await run(app, name, read(), options.limit))
                kept.write_bytes(pickle.dumps(results[-1]))
            print("\n".join(table(results[-1:])[2:]), f"({time.perf_counter() - started:.0f} s)", flush=True)
    finally:
        await app.aclose()
    lines = [
        "# Retrieval",
        "",
        "    python benchmarks/retrieval.py" + (f" --limit {options.limit}" if options.limit else ""),
        "",
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}, Python {platform.python_version()}, "
        "embedded PostgreSQL, multilingual-e5-small int8, chunks of 300 tokens. "
        "Times are whole searches without the embedding of the question.",
        "",
        *table(results),
        "",
        "Hybrid against the better of its halves, question by question. Within the goal: not below it "
        f"by more than {MARGIN} plus one standard error, on mrr@10 and on recall@10. "
        "Floor: hit@1 of a plain BM25 on all questions of the set.",
        "",
        *verdicts(results),
        "",
        *goals(results),
    ]
    print("\n".join(["", *verdicts(results), "", *goals(results)]))
    if not options.set:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    anyio.run(main)
