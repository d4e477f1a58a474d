"""Extractive answers: how often the quoted sentences hold the answer, and how often refusing is right.

    python benchmarks/extractive.py --data ../shared/data/retrieval [--sample 150] [--mode vector] [--lexical]

Each set's questions are asked of its own passages (answer-hit: a quoted sentence holds one
of the expected answers; for sets without answers: the first quoted passage is the right
one), and of another set's passages, where only a refusal is right. Vectors are kept under
the system's temporary folder.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from ragstone.embed.local import LocalEmbedder
from ragstone.generate import ExtractiveGenerator
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.memory import MemoryStore
from ragstone.types import Chunk, Document, Prompt, Query, Vectors, digest

PASSAGES = 400
TOP = 5
ANSWERABLE = [
    ("xquad_en", "xquad_en"),
    ("xquad_zh", "xquad_zh"),
    ("xquad_zh_to_en", "xquad_en"),
    ("xquad_en_to_zh", "xquad_zh"),
    ("drcd_dev", "drcd_dev"),
    ("cmrc2018_trial", "cmrc2018_trial"),
    ("paraphrase_en", "paraphrase_en"),
    ("paraphrase_zh", "paraphrase_zh"),
    ("paraphrase_zh", "paraphrase_en"),
    ("paraphrase_en", "paraphrase_zh"),
    ("mtrag_un", "mtrag_un"),
]
UNANSWERABLE = [
    ("xquad_en", "mtrag_un"),
    ("xquad_en", "paraphrase_en"),
    ("paraphrase_en", "xquad_en"),
    ("paraphrase_en", "mtrag_un"),
    ("xquad_zh", "paraphrase_zh"),
    ("xquad_zh", "cmrc2018_trial"),
    ("cmrc2018_trial", "xquad_zh"),
    ("paraphrase_zh", "cmrc2018_trial"),
    ("drcd_dev", "xquad_zh"),
    ("xquad_zh", "mtrag_un"),
    ("xquad_en", "cmrc2018_trial"),
    ("mtrag_un unanswerable", "mtrag_un"),
]


class KeptEmbedder:
    """An embedder that remembers vectors in a file and cuts what is too long."""

    def __init__(self, inner: LocalEmbedder, file: Path) -> None:
        self._inner, self._file, self._kept = inner, file, {}
        if file.exists():
            with np.load(file) as stored:
                self._kept = dict(zip(stored["keys"], stored["values"], strict=True))
        self.computed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return await self._embed("query", self._inner.embed_queries, texts)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed("passage", self._inner.embed_documents, [self._cut(text) for text in texts])

    def _cut(self, text: str) -> str:
        offsets = self._inner.tokenizer.offsets(text) if len(text) > self._inner.max_tokens // 2 else []
        limit = self._inner.max_tokens
        return text[: offsets[limit - 1][1]] if len(offsets) > limit else text

    async def _embed(self, kind: str, embed: Any, texts: Sequence[str]) -> Vectors:
        keys = [digest(kind, text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        for key, vector in zip(new, (await embed(list(new.values()))).values if new else (), strict=True):
            self._kept[key] = vector
        self.computed += len(new)
        return Vectors(model=self._inner.identity, values=np.stack([self._kept[key] for key in keys]))

    def save(self) -> None:
        np.savez(self._file, keys=np.array(list(self._kept)), values=np.stack(list(self._kept.values())))


@dataclass
class Question:
    text: str
    answers: list[str]
    relevant: set[str]


@dataclass
class Data:
    root: Path
    sample: int

    def questions(self, name: str) -> list[Question]:
        name, _, kind = name.partition(" ")
        lines = (self.root / name / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
        relevant: dict[str, set[str]] = {}
        for line in lines:
            query_id, passage_id, score = line.split("\t")
            if float(score) > 0:
                relevant.setdefault(query_id, set()).add(passage_id)
        rows = _rows(self.root / name / "queries.jsonl")
        if name == "mtrag_un":
            wanted = "UNANSWERABLE" if kind else "ANSWERABLE"
            rows = [row for row in rows if row["answerability"] == [wanted]]
        random.Random(0).shuffle(rows)
        exact = name.split("_")[0] in ("xquad", "drcd", "cmrc2018")
        return [
            Question(row["text"], row["answers"] if exact else [], relevant.get(row["id"], set()))
            for row in rows[: self.sample]
        ]

    def passages(self, name: str) -> list[dict[str, Any]]:
        """Those the sampled questions need, and others up to 400."""
        rows = _rows(self.root / name / "corpus.jsonl")
        needed = {found for question in self.questions(name) for found in question.relevant}
        random.Random(0).shuffle(rows)
        rows.sort(key=lambda row: row["id"] not in needed)
        return rows[: max(PASSAGES, len(needed))]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def filled(data: Data, name: str, embedder: KeptEmbedder) -> MemoryStore:
    store = MemoryStore()
    for row in data.passages(name):
        document = Document(text=row["text"], uri=row["id"], title=row["title"].replace("_", " "))
        chunk = Chunk(
            text=document.text,
            document_id=document.document_id,
            index=0,
            start=0,
            end=len(document.text),
            context=document.title,
        )
        await store.replace(document, [chunk], await embedder.embed_documents([chunk.embedding_text]))
    return store


def _folded(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass
class Result:
    asked: int = 0
    hit: int = 0
    quoted: int = 0
    sentences: int = 0
    characters: int = 0


async def ask(
    questions: Sequence[Question], retrieve: StoreRetriever, generate: ExtractiveGenerator
) -> Result:
    result = Result()
    for question in questions:
        query = Query(question.text)
        hits = await retrieve(query)
        prompt = Prompt(query=query, messages=(), passages=tuple(hits))
        chosen = await generate.choose(prompt)
        result.asked += 1
        if not chosen:
            continue
        result.quoted += 1
        result.sentences += len(chosen)
        told = [one.text for one in chosen]
        result.characters += sum(map(len, told))
        if question.answers:
            quotes = [_folded(text) for text in told]
            result.hit += any(_folded(answer) in quote for answer in question.answers for quote in quotes)
        else:
            result.hit += any(hits[one.n - 1].uri in question.relevant for one in chosen)
    return result


async def run(arguments: argparse.Namespace) -> None:
    data = Data(arguments.data, arguments.sample)
    kept = Path(tempfile.gettempdir()) / "ragstone-bench"
    kept.mkdir(exist_ok=True)
    embedder = KeptEmbedder(await LocalEmbedder.open(kept, threads=1), kept / "extractive.npz")
    print("| questions of | passages of | questions | answer-hit | false refusals | false answers", end="")
    print(" | sentences | characters | CPU ms each |")
    print("|---" * 9 + "|")
    stores: dict[str, MemoryStore] = {}
    for right, pairs in ((True, ANSWERABLE), (False, UNANSWERABLE)):
        for asked, of in pairs:
            if of not in stores:
                stores[of] = await filled(data, of, embedder)
            started = time.process_time()
            retrieve = StoreRetriever(store=stores[of], embedder=embedder, top_k=TOP, mode=arguments.mode)
            generate = ExtractiveGenerator(None if arguments.lexical else embedder)
            result = await ask(data.questions(asked), retrieve, generate)
            embedder.save()
            print(_line(right, asked, of, result, time.process_time() - started), flush=True)


def _line(right: bool, asked: str, of: str, result: Result, seconds: float) -> str:
    count = result.asked
    share = f"{result.hit / count:.3f} | {1 - result.quoted / count:.3f} |"
    if not right:
        share = f" | | {result.quoted / count:.3f}"
    quoted = max(1, result.quoted)
    size = f"{result.sentences / quoted:.2f} | {result.characters / quoted:.0f}"
    return f"| {asked} | {of} | {count} | {share} | {size} | {seconds / count * 1000:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=150)
    parser.add_argument("--mode", default="hybrid", choices=["hybrid", "vector", "text"])
    parser.add_argument("--lexical", action="store_true", help="choose sentences without the model")
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
