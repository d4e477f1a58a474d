"""Extractive answers: how often the quoted sentences hold the answer, and how often refusing is right.

    python benchmarks/extractive.py [FOLDER] [--sample 80] [--cache FOLDER] [--lexical]

FOLDER (default: ../shared/data/retrieval) is read as by benchmarks/retrieval.py. Each set's
questions are asked of its own passages (answer-hit: a quoted sentence holds one of the
expected answers; mrr: one divided by the place of the first that does; for sets without such
answers: a sentence of a right passage), then of passages that cannot answer them: another set's, and
its own without the right ones ("near", where some other passage may answer all the same).
Of the first 80 questions of a shuffle that is the same every time, thresholds were chosen on
every other one; the rest are asked here. Vectors are kept in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio

from ragstone.clean import clean
from ragstone.embed.local import LocalEmbedder
from ragstone.evaluate import Dataset
from ragstone.generate import ExtractiveGenerator
from ragstone.ingest import IngestPipeline
from ragstone.kb.bootstrap import splitter
from ragstone.kb.settings import load
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.memory import MemoryStore
from ragstone.types import Blob, Document, Prompt, Query
from retrieval import CACHE, SETS, KeptVectors, datasets

TOP = 8
ANSWERABLE = {
    "xquad_en": "xquad_en",
    "xquad_zh": "xquad_zh",
    "xquad_zh_to_en": "xquad_en",
    "xquad_en_to_zh": "xquad_zh",
    "drcd_dev": "drcd_dev",
    "cmrc2018_trial": "cmrc2018_trial",
    "paraphrase_en": "paraphrase_en",
    "paraphrase_zh": "paraphrase_zh",
    "paraphrase_zh_to_en": "paraphrase_en",
    "paraphrase_en_to_zh": "paraphrase_zh",
    "mtrag_un": "mtrag_un",
    "mtrag_un with the turn before": "mtrag_un",
    "mixed_same": "mixed_same",
    "mixed_other": "mixed_other",
}
OTHER = [
    ("xquad_en", "mtrag_un"),
    ("xquad_en", "paraphrase_en"),
    ("paraphrase_en", "xquad_en"),
    ("paraphrase_en", "mtrag_un"),
    ("mtrag_un", "xquad_en"),
    ("xquad_zh", "paraphrase_zh"),
    ("xquad_zh", "cmrc2018_trial"),
    ("cmrc2018_trial", "xquad_zh"),
    ("paraphrase_zh", "cmrc2018_trial"),
    ("drcd_dev", "xquad_zh"),
    ("drcd_dev", "cmrc2018_trial"),
    ("xquad_zh", "mtrag_un"),
    ("cmrc2018_trial", "mtrag_un"),
    ("xquad_en", "cmrc2018_trial"),
    ("mtrag_un", "xquad_zh"),
    ("mtrag_un unanswerable", "mtrag_un"),
    ("mtrag_un unanswerable with the turn before", "mtrag_un"),
]
NEAR = [
    *("xquad_en", "xquad_zh", "xquad_zh_to_en", "xquad_en_to_zh", "drcd_dev", "cmrc2018_trial"),
    *("paraphrase_en", "paraphrase_zh", "mtrag_un"),
]


@dataclass(frozen=True)
class Question:
    text: str
    answers: Sequence[str]
    relevant: frozenset[str]


class Sets:
    """Questions and filled stores, by name."""

    def __init__(self, folder: Path, sample: int, embedder: KeptVectors) -> None:
        self._sample, self._embedder = sample, embedder
        self._datasets = {name: read() for name, read in datasets(folder).items()}
        self._rows = {
            path.parent.name: {
                row["id"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())
            }
            for path in folder.glob("*/queries.jsonl")
        }
        self._stores: dict[str, MemoryStore] = {}

    def questions(self, asked: str) -> list[Question]:
        name, _, kind = asked.partition(" ")
        rows = self._rows.get(name, {})
        if kind.startswith("unanswerable"):
            wanted = [row for row in rows.values() if row["answerability"] == ["UNANSWERABLE"]]
            return [Question(_text(row, kind), (), frozenset()) for row in wanted]
        data: Dataset = self._datasets[name].first(1_000_000)
        found = [item for item in data.questions if item.text.strip()]
        if name == "mtrag_un":
            found = [item for item in found if rows[item.query_id]["answerability"] == ["ANSWERABLE"]]
        exact = name.split("_")[0] in ("xquad", "drcd", "cmrc2018")
        return [
            Question(
                _text(rows[item.query_id], kind) if kind else item.text,
                rows[item.query_id]["answers"] if exact else (),
                frozenset(data.relevant[item.query_id]),
            )
            for item in found[: self._sample][1::2]
        ]

    async def store(self, name: str) -> MemoryStore:
        if name not in self._stores:
            self._stores[name] = MemoryStore()
            pipeline = IngestPipeline(
                parse=_document,
                clean=[clean],
                split=splitter(load(), self._embedder),
                embedder=self._embedder,
                store=self._stores[name],
                settings="benchmark",
            )

            async def blobs() -> AsyncIterator[Blob]:
                for passage in self._datasets[name].passages:
                    data = json.dumps([passage.title, passage.text]).encode()
                    yield Blob(uri=passage.corpus_id, name=passage.corpus_id, data=data)

            await pipeline.run(blobs())
        return self._stores[name]


async def _document(blob: Blob) -> Document:
    title, text = json.loads(blob.data)
    return Document(text=text if text.strip() else title, title=title, uri=blob.uri, media_type="text/plain")


def _text(row: dict[str, Any], kind: str) -> str:
    said = [message["content"] for message in row["history"] if message["role"] == "user"]
    return f"{said[-1]}\n{row['text']}" if "turn before" in kind and said else row["text"]


def _folded(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass
class Result:
    """Of each question: the reciprocal place of the answer; of each answer: sentences and characters."""

    places: list[float]
    sizes: list[tuple[int, int]]

    @property
    def quoted(self) -> float:
        return len(self.sizes) / len(self.places)

    def line(self, kind: str, asked: str, of: str) -> str:
        hit = fmean(place > 0 for place in self.places)
        told = f"| | | | {self.quoted:.3f}"
        if kind == "own":
            told = f"| {hit:.3f} | {fmean(self.places):.3f} | {1 - self.quoted:.3f} |"
        sentences = fmean(size for size, _ in self.sizes) if self.sizes else 0
        characters = fmean(size for _, size in self.sizes) if self.sizes else 0
        return f"| {asked} | {of} | {len(self.places)} {told} | {sentences:.2f} | {characters:.0f} |"


async def ask(
    questions: Sequence[Question], retrieve: StoreRetriever, generate: ExtractiveGenerator, kind: str
) -> Result:
    result = Result([], [])
    for question in questions:
        hits = await retrieve(Query(question.text))
        if kind == "near":
            hits = [hit for hit in hits if hit.uri not in question.relevant]
        hits = hits[:TOP]
        chosen = await generate.choose(Prompt(query=Query(question.text), messages=(), passages=tuple(hits)))
        place = 0.0
        for number, one in reversed(list(enumerate(chosen, start=1))):
            held = any(_folded(answer) in _folded(one.text) for answer in question.answers)
            if held if question.answers else hits[one.n - 1].uri in question.relevant:
                place = 1 / number
        result.places.append(place)
        if chosen:
            result.sizes.append((len(chosen), sum(len(one.text) for one in chosen)))
    return result


async def run(arguments: argparse.Namespace) -> None:
    models = Path(tempfile.gettempdir()) / "ragstone-bench"
    models.mkdir(exist_ok=True)
    embedder = KeptVectors(await LocalEmbedder.open(models, threads=1), arguments.cache / "vectors.sqlite")
    sets = Sets(arguments.folder, arguments.sample, embedder)
    generate = ExtractiveGenerator(None if arguments.lexical else embedder)
    pairs = [("own", asked, of) for asked, of in ANSWERABLE.items()]
    pairs += [("other", asked, of) for asked, of in OTHER]
    pairs += [("near", name, ANSWERABLE[name]) for name in NEAR]
    print(
        "| questions of | passages of | questions | answer-hit | mrr | false refusals | false answers", end=""
    )
    print(" | sentences | characters |\n" + "|---" * 9 + "|")
    means: dict[str, list[float]] = {}
    for kind, asked, of in pairs:
        retrieve = StoreRetriever(store=await sets.store(of), embedder=embedder, top_k=TOP + 12)
        retrieve = replace(retrieve, top_k=TOP) if kind != "near" else retrieve
        result = await ask(sets.questions(asked), retrieve, generate, kind)
        means.setdefault(kind, []).append(1 - result.quoted if kind == "own" else result.quoted)
        print(result.line(kind, asked, of + (", near" if kind == "near" else "")), flush=True)
    print("\nMeans: " + ", ".join(f"{kind} {fmean(values):.3f}" for kind, values in means.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SETS)
    parser.add_argument("--sample", type=int, default=80)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--lexical", action="store_true", help="choose sentences without the model")
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
