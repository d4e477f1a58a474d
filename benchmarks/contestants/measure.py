"""Runs one contestant of benchmarks/peers.py in its own interpreter: standard library and numpy only.

    python search_<name>.py [CORPUS WORK]

CORPUS holds passages and questions with their vectors, WORK is empty and belongs to the
contestant. What was measured goes to WORK/measured.json. Without them the library is imported only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

TOP_K = 10
MODES = ("hybrid", "vector", "text")
SHARES = {"percent": 100, "tenth": 10}
"""Metadata of passage number i: i modulo these, so that one value keeps 1% and 10% of them."""

KEPT = 3
"""The value that the filters ask for."""

FILE_SIZE, FILES = 16, 40
"""Passages of a document, and how many such documents are put in one by one."""

EVERY = 3
"""Vector, text and filtered searches are asked one question in so many."""


@dataclass(frozen=True)
class Passage:
    passage_id: str
    text: str
    metadata: dict[str, int]
    vector: Any


class Contestant(Protocol):
    """A library as its documentation sets it up on one machine."""

    version: str

    async def ingest(self, passages: Sequence[Passage]) -> None: ...

    async def search(self, mode: str, question: str, kept: tuple[str, int] | None) -> list[str]:
        """Ids of the best `TOP_K` passages; `kept` is a metadata key and the value it must have."""
        ...

    async def save(self, folder: Path) -> None:
        """Write to `folder` what the library can, unless it is there already."""
        ...

    # A library that keeps documents on disk has `async ingest_file(name, passages)` too: one document
    # of several chunks, durable when it returns.

    def other_cpu(self) -> float:
        """CPU seconds so far of processes that work for this one."""
        ...

    async def close(self) -> None: ...


class Known:
    """The embedding function of all contestants: the vectors of known texts."""

    def __init__(self, corpus: Path) -> None:
        self._corpus = corpus
        self.passages = [
            Passage(row["id"], row["text"], {key: number % size for key, size in SHARES.items()}, vector)
            for number, (row, vector) in enumerate(_rows(corpus, "passages"))
        ]
        self.questions = list(_rows(corpus, "questions"))
        self._documents = {passage.text: passage.vector for passage in self.passages}
        self._queries = {row["text"]: vector for row, vector in self.questions}

    def document(self, text: str) -> Any:
        return self._documents[text]

    def query(self, text: str) -> Any:
        return self._queries[text]

    def tokens(self) -> dict[str, Any]:
        """The token vectors of every known text, as Ragstone's local model gives them."""
        found: dict[str, Any] = {}
        passages = [passage.text for passage in self.passages]
        for name, texts in (
            ("passages", passages),
            ("questions", [row["text"] for row, _ in self.questions]),
        ):
            with np.load(self._corpus / f"{name}-tokens.npz") as kept:
                found |= {text: kept[f"arr_{place}"] for place, text in enumerate(texts)}
        return found

    def nearest(self, vector: Any, kept: tuple[str, int]) -> list[str]:
        """Exact search among the passages that the filter keeps."""
        among = [passage for passage in self.passages if passage.metadata[kept[0]] == kept[1]]
        scores = np.stack([passage.vector for passage in among]) @ vector
        return [among[place].passage_id for place in np.argsort(-scores, kind="stable")[:TOP_K]]


def _rows(corpus: Path, name: str) -> Any:
    lines = (corpus / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return zip(map(json.loads, lines), np.load(corpus / f"{name}.npy"), strict=True)


class Stopwatch:
    """CPU and wall seconds of single calls."""

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self._cpu = self._now()
        self.wall: list[float] = []

    def _now(self) -> float:
        return time.process_time() + self._contestant.other_cpu()

    @property
    def cpu(self) -> float:
        return self._now() - self._cpu

    async def timed(self, call: Any) -> Any:
        started = time.perf_counter()
        result = await call
        self.wall.append(time.perf_counter() - started)
        return result

    def figures(self) -> dict[str, float]:
        wall = sorted(self.wall)
        return {
            "cpu_ms": self.cpu / len(wall) * 1000,
            "p50_ms": wall[len(wall) // 2] * 1000,
            "p95_ms": wall[int(len(wall) * 0.95)] * 1000,
        }


async def _measured(contestant: Contestant, known: Known, work: Path) -> dict[str, Any]:
    watch = Stopwatch(contestant)
    await contestant.ingest(known.passages)
    # What is built at the first search belongs to what was put in.
    for mode in MODES:
        await contestant.search(mode, known.questions[0][0]["text"], None)
    result: dict[str, Any] = {
        "version": contestant.version,
        "ingest_cpu_ms": watch.cpu / len(known.passages) * 1000,
    }
    for mode in MODES:
        asked = known.questions[:: 1 if mode == "hybrid" else EVERY]
        watch, rankings = Stopwatch(contestant), {}
        for row, _ in asked:
            rankings[row["id"]] = await watch.timed(contestant.search(mode, row["text"], None))
        result[mode] = watch.figures() | {"rankings": rankings}
    for key in SHARES:
        result[key] = await _filtered(contestant, known, (key, KEPT))
    await contestant.save(work)
    result["disk_mb"] = sum(_sizes(work)) / 1e6
    ingest_file = getattr(contestant, "ingest_file", None)
    if ingest_file is not None:
        watch = Stopwatch(contestant)
        for number in range(FILES):
            passages = known.passages[number * FILE_SIZE : (number + 1) * FILE_SIZE]
            await watch.timed(ingest_file(f"file-{number}", passages))
        result["file_cpu_ms"] = watch.figures()["cpu_ms"] / FILE_SIZE
    return result


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue  # a server may drop a file of its own meanwhile


async def _filtered(contestant: Contestant, known: Known, kept: tuple[str, int]) -> dict[str, float]:
    asked = known.questions[::EVERY]
    watch = Stopwatch(contestant)
    found = [await watch.timed(contestant.search("vector", row["text"], kept)) for row, _ in asked]
    figures = watch.figures()
    exact = [known.nearest(vector, kept) for _, vector in asked]
    recalls = [len(set(one) & set(other)) / len(one) for one, other in zip(exact, found, strict=True)]
    return figures | {"recall": sum(recalls) / len(recalls)}


async def _run(make: Any, corpus: Path, work: Path) -> None:
    known = Known(corpus)
    contestant: Contestant = await make(known, work)
    try:
        result = await _measured(contestant, known, work)
    finally:
        await contestant.close()
    (work / "measured.json").write_text(json.dumps(result), encoding="utf-8")


def main(make: Any) -> None:
    """`make(known, work)` is an async function that opens the contestant."""
    if len(sys.argv) > 2:
        asyncio.run(_run(make, Path(sys.argv[1]), Path(sys.argv[2])))
