"""The retriever over a store: fixed and per-question limits, and whose filter counts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.errors import InvalidQuery, InvalidStage
from ragstone.filters import key, parse
from ragstone.fuse import reciprocal_rank
from ragstone.metadata import MetadataValue
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.memory import MemoryStore
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document, Hit, Query, Scope

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> MemoryStore:
    store, embedder = MemoryStore(), FakeEmbedder()
    rows: dict[str, dict[str, MetadataValue]] = {
        "lamp in the hall": {"user": "ann", "year": 2023},
        "lamp in the cellar": {"user": "ann", "year": 2024},
        "lamp in the attic": {"user": "bob", "year": 2024},
        "lamp without owner": {},
    }
    for text, metadata in rows.items():
        document = Document(text=text, uri=f"u:{text}", metadata=metadata)
        chunk = Chunk(
            text=text, document_id=document.document_id, index=0, start=0, end=len(text), metadata=metadata
        )
        await store.replace(document, [chunk], await embedder.embed_documents([text]))
    return store


def retriever(store: MemoryStore, **options: object) -> StoreRetriever:
    return StoreRetriever(store=store, embedder=FakeEmbedder(), **options)  # type: ignore[arg-type]


async def found(retriever: StoreRetriever, query: Query) -> set[str]:
    return {hit.chunk.text.rpartition(" ")[2] for hit in await retriever(query)}


async def test_the_retrievers_filter_and_the_requests_both_hold(store: MemoryStore) -> None:
    """A44, W05: a request narrows, it never replaces."""
    own = retriever(store, scope=Scope(filter=key("user") == "ann"))
    assert await found(own, Query("lamp")) == {"hall", "cellar"}
    for text, expected in [
        ("year == 2024", {"cellar"}),
        ("user == 'bob'", set()),
        ("user == 'bob' or user != 'bob'", {"hall", "cellar"}),
        ("user is null", set()),
        ("not user == 'ann'", set()),
    ]:
        query = Query("lamp", scope=Scope(filter=parse(text)))
        assert await found(own, query) == expected, text


async def test_scope_limit_and_threshold_may_follow_the_question(store: MemoryStore) -> None:
    """A48: the filter from who asks, the number of hits and the least score from the question."""
    dynamic = retriever(
        store,
        scope=lambda query: Scope(filter=key("user") == str(query.context["user"])),
        top_k=lambda query: 1 if "one" in query.text else 5,
        min_score=lambda query: 1.0 if "nothing" in query.text else None,
    )
    assert await found(dynamic, Query("lamp", context={"user": "ann"})) == {"hall", "cellar"}
    assert await found(dynamic, Query("lamp", context={"user": "bob"})) == {"attic"}
    assert len(await dynamic(Query("one lamp", context={"user": "ann"}))) == 1
    assert await dynamic(Query("lamp, nothing", context={"user": "ann"})) == []


async def test_a_threshold_drops_lower_results_and_limits_are_checked(store: MemoryStore) -> None:
    """A45"""
    scores = [hit.score for hit in await retriever(store, mode="vector")(Query("lamp in the attic"))]
    assert len(scores) == 4
    kept = await retriever(store, mode="vector", min_score=scores[1])(Query("lamp in the attic"))
    assert [hit.score for hit in kept] == [score for score in scores if score >= scores[1]]
    assert len(kept) < 4
    for options in ({"top_k": 0}, {"min_score": float("nan")}):
        with pytest.raises(InvalidQuery):
            retriever(store, **options)
    with pytest.raises(InvalidQuery):
        await retriever(store, top_k=lambda query: 0)(Query("lamp"))
    with pytest.raises(InvalidQuery):
        await retriever(store, min_score=lambda query: float("nan"))(Query("lamp"))


class Alike(FakeEmbedder):
    """Whole texts say nothing: only tokens tell them apart."""

    def _vector(self, text: str) -> NDArray[np.float32]:
        return super()._vector("same" if " " in text else text)


async def compared(tokens: bool, **options: object) -> list[Hit]:
    store, embedder = MemoryStore(), Alike(dimension=256, token_vectors=tokens)
    for text in ("red green blue", "north south east", "one two three"):
        document = Document(text=text, uri=f"u:{text}")
        chunk = Chunk(text=text, document_id=document.document_id, index=0, start=0, end=len(text))
        await store.replace(document, [chunk], await embedder.embed_documents([text]))
    search = StoreRetriever(store=store, embedder=embedder, **options)  # type: ignore[arg-type]
    # No word is shared in full: the words' first five letters are.
    return await search(Query("northern eastward southern"))


async def test_the_best_hits_are_compared_token_by_token_where_the_model_gives_tokens() -> None:
    """A52: on the scale `late`, with what came before beside it."""
    found = await compared(True)
    assert found[0].chunk.text == "north south east"
    assert [score.scale for score in found[0].scores] == ["cosine", "hybrid", "late"]
    assert found[0].score > found[1].score
    assert {score.scale for hit in await compared(False) for score in hit.scores} == {"cosine", "hybrid"}


async def test_token_vectors_can_be_left_out_and_another_fusion_keeps_its_own_scale() -> None:
    """A52, W25, C27, C28, C29: thresholds act on the scale that is shown, at most 1; no hit is missing."""
    assert {hit.scores[-1].scale for hit in await compared(True, compared=0)} == {"hybrid"}
    assert {hit.scores[-1].scale for hit in await compared(True, fuse=reciprocal_rank)} == {"rrf"}
    assert {hit.scores[-1].scale for hit in await compared(True, mode="vector")} == {"cosine"}
    for asked in (1, 2, 3):
        hits = await compared(True, top_k=asked, compared=1)
        assert len(hits) == asked
        assert all(0 <= hit.score <= 1 and hit.scores[-1].scale == "late" for hit in hits)
    best = await compared(True)
    assert await compared(True, min_score=(best[0].score + best[1].score) / 2) == best[:1]


async def test_a_mode_that_does_not_exist_is_refused_by_name(store: MemoryStore) -> None:
    with pytest.raises(InvalidStage, match="'fuzzy'"):
        retriever(store, mode="fuzzy")
