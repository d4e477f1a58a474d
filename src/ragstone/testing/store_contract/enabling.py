"""Passages that are kept and shown but found by no search."""

from __future__ import annotations

import pytest

from ragstone.filters import Equal
from ragstone.fuse import hybrid
from ragstone.protocols import Store
from ragstone.testing.store_contract.passages import (
    EVERYTHING,
    X,
    Y,
    Z,
    halves,
    passages,
    put,
    texts,
    vectors,
)
from ragstone.types import Scope

LINES = ("alpha one", "alpha two", "alpha three")


@pytest.mark.anyio
class EnablingContract:
    """Chunks are disabled, shown all the same, and enabled again."""

    async def found(self, store: Store, scope: Scope = EVERYTHING) -> list[list[str]]:
        """What each way to search finds, sorted."""
        asked = vectors(X)
        rankings = [
            await store.search_vector(asked, scope=scope, top_k=9),
            await store.search_text("alpha", scope=scope, top_k=9),
            *await halves(store, "alpha", asked, scope=scope, top_k=9),
            await store.search_hybrid("alpha", asked, scope=scope, top_k=9, fuse=hybrid, candidates=9),
        ]
        return [sorted(texts(hits)) for hits in rankings]

    async def test_a_disabled_chunk_is_found_by_no_search_and_shown_with_a_mark(self, store: Store) -> None:
        _, chunks = passages("u:1", *LINES)
        await put(store, "u:1", *LINES, rows=[X, Y, Z], metadata={"kind": "a"})
        ids = [chunk.chunk_id for chunk in chunks]
        assert await store.set_enabled([ids[0], "unknown", ids[0]], False) == 1
        named = Scope(bases=("one",), filter=Equal("kind", "a"))
        for scope in (EVERYTHING, Scope(bases=("one",)), named):
            assert await self.found(store, scope) == [sorted(LINES[1:])] * 5
            assert await store.count(scope) == 2
        for hits in (await store.fetch(ids), await store.neighbours(ids[1], 1)):
            assert texts(hits) == list(LINES)
            assert [hit.chunk.enabled for hit in hits] == [False, True, True]
        assert await store.set_enabled(ids, True) == 3
        assert await self.found(store) == [sorted(LINES)] * 5
        assert await store.set_enabled([], False) == 0

    async def test_a_passage_stays_disabled_when_its_document_is_replaced(self, store: Store) -> None:
        _, chunks = passages("u:1", *LINES)
        await put(store, "u:1", *LINES, rows=[X, Y, Z], revision="r1")
        await put(store, "u:2", LINES[0], rows=[X])
        await store.set_enabled([chunks[0].chunk_id], False)
        await put(store, "u:1", "alpha new", *LINES[:2], rows=[Z, X, Y], revision="r2")
        # The same words in another document are another passage.
        left = sorted(["alpha new", LINES[1], LINES[0]])
        assert await self.found(store) == [left] * 5
        # What was gone from the document for a version is new when it comes back.
        await put(store, "u:1", "alpha new", rows=[Z], revision="r3")
        await put(store, "u:1", *LINES, rows=[X, Y, Z], revision="r4")
        assert await store.count(EVERYTHING) == 4

    async def test_passages_of_one_text_in_a_document_go_together(self, store: Store) -> None:
        _, chunks = passages("u:1", "alpha", "beta", "alpha")
        await put(store, "u:1", "alpha", "beta", "alpha", rows=[X, Y, X])
        assert await store.set_enabled([chunks[2].chunk_id], False) == 1
        hits = await store.fetch([chunk.chunk_id for chunk in chunks])
        assert [hit.chunk.enabled for hit in hits] == [False, True, False]

    async def test_many_disabled_chunks_of_a_large_document(self, store: Store) -> None:
        lines = [f"alpha {n}" for n in range(40)]
        _, chunks = passages("u:1", *lines)
        await put(store, "u:1", *lines, revision="r1")
        assert await store.set_enabled([chunk.chunk_id for chunk in chunks[:30]], False) == 30
        await put(store, "u:1", *lines, revision="r2")
        assert await store.count(EVERYTHING) == 10
        assert len(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=30)) == 10
