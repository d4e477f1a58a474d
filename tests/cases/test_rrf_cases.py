"""rrf.jsonl and join_dedupe.jsonl, on hits without text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.fuse import concatenate, reciprocal_rank
from ragstone.types import Chunk, Hit, Score
from shared_data import SHARED

CASES = SHARED / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no shared cases beside the checkout")


def rows(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def hit(name: str, value: float | None = None) -> Hit:
    chunk = Chunk(text=name, document_id=name, index=0, start=0, end=len(name), chunk_id=name)
    scores = () if value is None else (Score(stage="retrieve", scale="cosine", value=value, rank=1),)
    return Hit(chunk=chunk, uri=name, title=name, scores=scores)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]


@pytest.mark.parametrize("row", rows("rrf.jsonl"))
def test_reciprocal_rank_orders_and_scores_as_the_case_says(row: dict[str, Any]) -> None:
    k = row.get("k", 60)

    def fused(rankings: list[list[str]]) -> list[Hit]:
        return reciprocal_rank([[hit(name) for name in ranking] for ranking in rankings], k=k)

    if "per_query" in row:
        result = reciprocal_rank([fused(rankings) for rankings in row["per_query"].values()], k=k)
    else:
        result = fused(row["rankings"])
    assert ids(result) == row["expected_order"]
    for found in result:
        expected = row.get("expected_scores", {}).get(found.chunk.chunk_id, found.score)
        assert found.score == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("row", rows("join_dedupe.jsonl"))
def test_concatenation_joins_as_the_case_says(row: dict[str, Any]) -> None:
    """Rows A59 and A60; of duplicates ours keeps the best (W03)."""
    if "per_query" not in row:
        with pytest.raises(TypeError):
            concatenate(row["input"])
        return
    rankings = [
        [hit(name, value) for name, value in ranking]
        for per_retriever in row["per_query"].values()
        for ranking in per_retriever
    ]
    found = ids(concatenate(rankings))
    if "expected_order" in row:
        assert found == row["expected_order"]
    else:
        assert sorted(found) == sorted(row["expected_ids_any_order"])
