"""cosine.jsonl: what a store makes of two vectors (rows A05, W25)."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from ragstone.errors import RagstoneError
from ragstone.store.memory import MemoryStore
from ragstone.types import Chunk, Document, Hit, Scope, Vectors
from shared_data import SHARED

pytestmark = pytest.mark.anyio
FILE = SHARED / "cases" / "cosine.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def vectors(*rows: list[float]) -> Vectors:
    return Vectors(model="m", values=np.array(rows, dtype=np.float64))  # type: ignore[arg-type]


async def search(stored: list[float], asked: list[float]) -> list[Hit]:
    """What `asked` finds of `stored` and of a vector that points away from it."""
    store = MemoryStore()
    away = [-1.0, *([0.0] * (len(stored) - 1))]
    document = Document(text="ab", uri="u")
    chunks = [
        Chunk(text=text, document_id=document.document_id, index=n, start=n, end=n + 1)
        for n, text in enumerate("ab")
    ]
    await store.replace(document, chunks, vectors(stored, away))
    return await store.search_vector(vectors(asked), scope=Scope(), top_k=5)


@pytest.mark.parametrize("case", [case for case in CASES if "a" in case])
async def test_a05_two_vectors_score_as_the_case_says(case: dict[str, Any]) -> None:
    a, b = ([float(value) for value in case[side]] for side in ("a", "b"))
    if any(map(math.isnan, a)):
        with pytest.raises(RagstoneError):
            await search(a, b)
        return
    hits = await search(a, b)
    assert all(math.isfinite(hit.score) for hit in hits)
    if case["expected"] == 1:
        assert hits[0].chunk.text == "a"
        assert hits[0].score == pytest.approx(1.0, abs=1e-6)
    else:
        # A zero vector: no score but 0, and behind what points away.
        assert [hit.score for hit in hits if hit.chunk.text == "a"] in ([], [0.0])
        assert not hits or hits[0].chunk.text == "b" or len(hits) == 1


@pytest.mark.parametrize("case", [case for case in CASES if "relevance_to_cosine" in case])
async def test_w25_a_score_is_the_cosine_itself_never_a_relevance(case: dict[str, Any]) -> None:
    angles = {0: [-1.0, 0.0], 0.5: [0.0, 1.0], 1: [1.0, 0.0]}
    for relevance, cosine in case["relevance_to_cosine"]:
        (found,) = [h for h in await search(angles[relevance], [1.0, 0.0]) if h.chunk.text == "a"]
        assert found.scores[-1].scale == "cosine"
        assert found.score == pytest.approx(cosine)
