"""Parents in the place of the chunks that were found (A24)."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.split import ParentChildSplitter, RecursiveSplitter
from ragstone.store.memory import MemoryStore
from ragstone.types import Chunk, Document, Hit, PageSpan, Query, Score, Vectors
from ragstone.widen import Parents

pytestmark = pytest.mark.anyio

TEXT = "".join(f"Sentence {n:02d} is here.  " + ("\n\n" if n % 4 == 3 else "") for n in range(16)).rstrip()
HALF = TEXT.index("Sentence 08")


async def stored(split: RecursiveSplitter | ParentChildSplitter) -> tuple[MemoryStore, Document, list[Chunk]]:
    document = Document(
        text=TEXT,
        title="Book",
        uri="u",
        pages=(PageSpan(number=1, start=0, end=HALF), PageSpan(number=2, start=HALF, end=len(TEXT))),
    )
    chunks = split(document)
    store = MemoryStore()
    values = np.ones((len(chunks), 2), dtype=np.float32)
    assert await store.replace(document, chunks, Vectors(model="m", values=values))
    return store, document, chunks


def hit(chunk: Chunk, value: float = 1.0) -> Hit:
    return Hit(chunk=chunk, uri="u", title="Book", scores=(Score(stage="s", scale="c", value=value, rank=1),))


QUERY = Query("question")


async def test_a24_the_parent_stands_in_the_place_of_its_children_once() -> None:
    store, document, chunks = await stored(ParentChildSplitter(parent_size=200, child_size=60))
    first, second, last = chunks[1], chunks[0], chunks[-1]
    assert first.parent == second.parent != last.parent
    wide = await Parents(store)(QUERY, [hit(last, 0.9), hit(first, 0.8), hit(second, 0.7)])
    assert [hit.chunk.chunk_id for hit in wide] == [last.chunk_id, first.chunk_id]
    for found, child in zip(wide, (last, first), strict=True):
        assert (found.chunk.start, found.chunk.end) == child.parent
        assert found.chunk.text == document.text[found.chunk.start : found.chunk.end]
        assert child.text in found.chunk.text
        assert found.chunk.context == "Book"
    assert [hit.scores[0].value for hit in wide] == [0.9, 0.8]
    assert wide[0].chunk.page == 2


async def test_a24_without_a_parent_or_with_a_changed_document_the_chunk_stays() -> None:
    store, document, chunks = await stored(RecursiveSplitter(max_size=60, overlap=0))
    assert await Parents(store)(QUERY, [hit(chunks[0]), hit(chunks[1])]) == [hit(chunks[0]), hit(chunks[1])]
    old = Chunk(text="gone", document_id=document.document_id, index=0, start=2, end=6, parent=(0, 9))
    lost = Chunk(text="gone", document_id="other", index=0, start=2, end=6, parent=(0, 9))
    assert await Parents(store)(QUERY, [hit(old), hit(lost)]) == [hit(old), hit(lost)]
