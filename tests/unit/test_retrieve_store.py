"""The retriever over a store: fixed and per-question limits, and whose filter counts."""

from __future__ import annotations

import pytest

from ragstone.errors import InvalidQuery
from ragstone.filters import key, parse
from ragstone.metadata import MetadataValue
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.memory import MemoryStore
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document, Query, Scope

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
