"""How search and ingest grow with the number of chunks: 1,000, 10,000, 100,000.

    python benchmarks/scaling.py [--sizes N...] [--home FOLDER] [--questions N]

The real PostgreSQL store, filled document by document with made-up Chinese and English text:
words by Zipf's law, topics with words of their own. Vectors of 384 dimensions lie in clusters
as those of real models do, so that nothing is embedded. Milliseconds are CPU of this process
and of its server process together, by the operating system's count, for whole searches from
the question's text and vector to the hits; recall@10 is against an exact scan in numpy.
Writes benchmarks/results/scaling.md and .svg unless `--sizes` is given.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import numpy as np
import psutil
from numpy.typing import NDArray

from ragstone.filters import Equal
from ragstone.fuse import hybrid
from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.store.postgres import PostgresStore
from ragstone.terms import STOP_WORDS
from ragstone.types import Chunk, Document, Hit, Scope, Vectors

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 10_000, 100_000)
DIMENSION = 384
TOPICS = 400
PER_DOCUMENT = 20
CANDIDATES = 100
TOP_K = 10
MODEL = "clustered/384"
EVERYTHING = Scope()


class Corpus:
    """Chunk n, its text and its vector: the same on every machine."""

    def __init__(self, size: int) -> None:
        self.size = size
        rng = np.random.default_rng(11)
        self._english = [*sorted(STOP_WORDS)[:60], *_words(rng, 40_000)]
        self._chinese = _han_words(rng, 30_000)
        self._topic_words = rng.integers(300, 20_000, size=(TOPICS, 60))
        self._centres = _unit(rng.normal(size=(TOPICS, DIMENSION)))
        self._common = _unit(rng.normal(size=(1, DIMENSION)))
        # What varies inside a topic: a few directions, as in the vectors of real models.
        self._directions = _unit(rng.normal(size=(48, DIMENSION)))
        self.vectors = np.concatenate(
            [self._vectors(first, min(1_000, size - first)) for first in range(0, size, 1_000)]
        )

    def _vectors(self, first: int, count: int) -> NDArray[np.float32]:
        rng = np.random.default_rng(1_000_003 + first)
        topics = self._topics(first, count)
        inner = rng.normal(size=(count, len(self._directions))) @ self._directions
        noise = rng.normal(size=(count, DIMENSION)) / np.sqrt(DIMENSION)
        values = 1.6 * self._common + self._centres[topics] + 0.09 * inner + 0.25 * noise
        return _unit(values).astype(np.float32)

    @staticmethod
    def _topics(first: int, count: int) -> NDArray[np.int64]:
        # A document keeps to one topic.
        documents = np.arange(first, first + count) // PER_DOCUMENT
        return (documents * 7_919) % TOPICS

    def text(self, n: int) -> str:
        rng = np.random.default_rng(n)
        topic = int(self._topics(n, 1)[0])
        english = n // PER_DOCUMENT % 2 == 0
        words, count = (self._english, 190) if english else (self._chinese, 175)
        ranks = _zipf(rng, count, len(words))
        own = rng.random(count) < 0.12
        ranks[own] = self._topic_words[topic][rng.integers(0, 60, size=int(own.sum()))]
        picked = [words[rank] for rank in ranks]
        size = 14 if english else 7
        sentences = [picked[at : at + size] for at in range(0, count, size)]
        if english:
            return ". ".join(" ".join(sentence) for sentence in sentences) + "."
        return "".join("".join(sentence) + "。" for sentence in sentences)

    def documents(self, first: int, last: int) -> Iterator[tuple[Document, list[Chunk], Vectors]]:
        for start in range(first, last, PER_DOCUMENT):
            numbers = range(start, min(start + PER_DOCUMENT, last))
            texts = [self.text(n) for n in numbers]
            document = Document(text="\n".join(texts), uri=f"made:{start:08d}", title=f"Document {start}")
            chunks: list[Chunk] = []
            at = 0
            for index, (n, text) in enumerate(zip(numbers, texts, strict=True)):
                chunks.append(
                    Chunk(
                        text=text,
                        document_id=document.document_id,
                        index=index,
                        start=at,
                        end=at + len(text),
                        chunk_id=f"{n:08d}",
                        context=document.title,
                        metadata={"percent": n * 7_919 % 100, "tenth": n * 7_919 % 10, "number": n},
                    )
                )
                at += len(text) + 1
            values = self.vectors[start : start + len(texts)]
            yield document, chunks, Vectors(model=MODEL, values=values)

    def questions(self, count: int, size: int) -> list[tuple[str, Vectors]]:
        """Ten words of one chunk (fourteen characters of a Chinese one), and a vector near it."""
        rng = np.random.default_rng(5)
        asked: list[tuple[str, Vectors]] = []
        for n in rng.integers(0, size, size=count):
            text = self.text(int(n))
            if " " in text:
                words = text.split()
                at = int(rng.integers(0, len(words) - 10))
                question = " ".join(words[at : at + 10])
            else:
                at = int(rng.integers(0, len(text) - 14))
                question = text[at : at + 14]
            noise = rng.normal(size=DIMENSION) / np.sqrt(DIMENSION)
            vector = _unit((self.vectors[n] + 0.35 * noise)[None])
            asked.append((question, Vectors(model=MODEL, values=vector.astype(np.float32))))
        return asked


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def _zipf(rng: np.random.Generator, count: int, most: int) -> NDArray[np.int64]:
    """Ranks from 0 with probability about 1 / (rank + 1)."""
    return np.minimum(np.exp(rng.random(count) * np.log(most + 1)).astype(np.int64) - 1, most - 1)


def _words(rng: np.random.Generator, count: int) -> list[str]:
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ol", "in")]
    lengths = rng.integers(2, 5, size=count)
    return ["".join(syllables[i] for i in rng.integers(0, len(syllables), size=n)) for n in lengths]


def _han_words(rng: np.random.Generator, count: int) -> list[str]:
    ranks = _zipf(rng, 2 * count, 3_500)
    characters = rng.permutation(np.arange(0x4E00, 0x4E00 + 8_000))
    return [
        "".join(chr(characters[rank]) for rank in ranks[2 * n : 2 * n + (1 if n % 5 == 0 else 2)])
        for n in range(count)
    ]
