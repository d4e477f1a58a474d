"""Selectors that ask the store: neighbours of a hit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone import Chunk, Document, Hit, MemoryStore, Query, Scope
from ragstone.errors import InvalidStage
from ragstone.filters import parse
from ragstone.testing import FakeEmbedder
from ragstone.types import Score
from ragstone.widen import Neighbours

pytestmark = pytest.mark.anyio


async def stored() -> tuple[MemoryStore, list[Hit]]:
    """Chunks 0 to 9 of one document; even ones carry open=true."""
    store, embedder, text = MemoryStore(), FakeEmbedder(), "0123456789"
    document = Document(text=text, uri="file:///a", base_id="one")
    chunks = [
        Chunk(
            text=text[n],
            document_id=document.document_id,
            index=n,
            start=n,
            end=n + 1,
            chunk_id=text[n],
            metadata={"open": n % 2 == 0},
        )
        for n in range(10)
    ]
    await store.replace(document, chunks, await embedder.embed_documents([chunk.text for chunk in chunks]))
    score = Score(stage="retrieve", scale="cosine", value=0.5, rank=1)
    return store, [hit.scored(score) for hit in await store.fetch(list(text))]


def names(hits: list[Hit]) -> str:
    return "".join(hit.chunk.chunk_id for hit in hits)


async def test_neighbours_stand_around_their_hit_each_once() -> None:
    store, hits = await stored()
    widened = await Neighbours(store, 1)(Query("q"), [hits[7], hits[2], hits[1]])
    assert names(widened) == "6781230"[:3] + "1230"
    assert [bool(hit.scores) for hit in widened] == [False, True, False, True, True, False, False]
    assert names(await Neighbours(store, 2)(Query("q"), [hits[0]])) == "012"
    assert await Neighbours(store)(Query("q"), []) == []


async def test_d10_neighbours_outside_of_the_scope_are_not_added() -> None:
    store, hits = await stored()
    narrow = Scope(filter=parse("open == true"))
    assert names(await Neighbours(store, 2)(Query("q", scope=narrow), [hits[4]])) == "246"
    assert names(await Neighbours(store, 2, narrow)(Query("q"), [hits[4]])) == "246"
    assert names(await Neighbours(store, 2)(Query("q", scope=Scope(bases=("two",))), [hits[4]])) == "4"


async def test_a_hit_that_the_store_no_longer_has_stays_alone() -> None:
    store, hits = await stored()
    gone = replace(hits[0], chunk=replace(hits[0].chunk, chunk_id="gone"))
    assert names(await Neighbours(store)(Query("q"), [gone, hits[9]])) == "gone89"


@pytest.mark.parametrize("n", [0, -1, 21, True, 1.5])
def test_a_number_that_cannot_work_is_refused(n: object) -> None:
    with pytest.raises(InvalidStage, match=str(n)):
        Neighbours(MemoryStore(), n)  # type: ignore[arg-type]
