"""The values of both paths: what they hold, refuse and convert (rows of group A0)."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from ragstone import Chunk, Document, Hit, MemoryStore, Message, Query, QueryPipeline, Scope, Score
from ragstone.augment import CitedContext
from ragstone.errors import InvalidMetadata, InvalidQuery, InvalidStage
from ragstone.filters import parse
from ragstone.generate import ExtractiveGenerator
from ragstone.retrieve.store import StoreRetriever
from ragstone.testing import FakeEmbedder

pytestmark = pytest.mark.anyio


def test_a01_a_question_is_immutable_and_a_change_of_it_keeps_the_rest() -> None:
    plain = Query("When?")
    assert (plain.history, dict(plain.context), plain.scope) == ((), {}, Scope())
    said = [Message(role="user", content="Hello")]
    query = Query("When?", history=said, context={"tenant": "north"}, scope=Scope(bases=("a",)))  # type: ignore[arg-type]
    assert query.history == tuple(said)
    changed = replace(query, text="Where?")
    assert (changed.history, changed.context, changed.scope) == (query.history, query.context, query.scope)
    with pytest.raises(FrozenInstanceError):
        query.text = "x"  # type: ignore[misc]
    with pytest.raises(InvalidQuery):
        replace(query, text=" ")


def test_a02_a04_documents_and_chunks_are_text_with_metadata_and_a_name_of_their_own() -> None:
    document = Document(text="One page.", metadata={"page": 1})
    assert document.document_id == Document(text="One page.", metadata={"page": 2}).document_id
    assert document.in_base("b").document_id != document.document_id
    chunk = Chunk(
        text=document.text,
        document_id=document.document_id,
        index=0,
        start=0,
        end=9,
        metadata=document.metadata,
    )
    assert (chunk.text, dict(chunk.metadata)) == ("One page.", {"page": 1})
    assert chunk.text == document.text[chunk.start : chunk.end]


def test_a03_metadata_keeps_its_types_in_a_copy_and_refuses_what_cannot_be_stored() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    given = {"s": "x", "i": 2**53, "f": 1.5, "b": True, "t": moment, "l": ["a", "b"], "none": None}
    document = Document(text="x", metadata=given)  # type: ignore[arg-type]
    given["s"] = "changed"
    assert document.metadata == {"s": "x", "i": 2**53, "f": 1.5, "b": True, "t": moment, "l": ("a", "b")}
    assert [type(document.metadata[key]) for key in "sifb"] == [str, int, float, bool]
    updated = replace(document, metadata={**document.metadata, "s": "y"})
    assert (updated.metadata["s"], document.metadata["s"]) == ("y", "x")
    for bad in ({"": 1}, {"x": float("nan")}, {"x": {"y": 1}}, {"x": [1, "a"]}):
        with pytest.raises(InvalidMetadata):
            Document(text="x", metadata=bad)  # type: ignore[arg-type]


async def test_a05_a06_vectors_are_of_unit_length_and_their_product_is_the_cosine() -> None:
    embedder = FakeEmbedder()
    vectors = await embedder.embed_documents(["the ferry leaves", "the ferry leaves", "a green pear", " "])
    assert vectors.values.shape == (4, embedder.dimension) == (len(vectors), vectors.dimension)
    assert np.allclose(np.linalg.norm(vectors.values, axis=1), [1, 1, 1, 0])
    cosines = vectors.values @ vectors.values.T
    assert cosines[0, 1] == pytest.approx(1.0)
    assert cosines[0, 2] < 0.9
    one = await embedder.embed_queries(["the ferry leaves"])
    assert one.values.shape == (1, embedder.dimension)


async def test_a09_hits_wrap_a_chunk_and_are_listed_best_first() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    for text in ("The ferry leaves at nine.", "A pear is green.", "The ferry is late."):
        document = Document(text=text)
        chunk = Chunk(text=text, document_id=document.document_id, index=0, start=0, end=len(text))
        await store.replace(document, [chunk], await embedder.embed_documents([text]))
    hits = await StoreRetriever(store=store, embedder=embedder, mode="vector")(Query("ferry"))
    assert {hit.chunk.text for hit in hits[:2]} == {"The ferry leaves at nine.", "The ferry is late."}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert [hit.scores[-1].rank for hit in hits] == [1, 2, 3]
    assert hits[0].scored(Score(stage="s", scale="x", value=9.0, rank=1)).on("x") == 9.0


def test_a11_a71_parts_have_defaults_and_only_what_nothing_replaces_is_required() -> None:
    async def nothing(query: Query) -> list[Hit]:
        return []

    built = QueryPipeline(retrievers=[nothing], augment=CitedContext(), generate=ExtractiveGenerator())
    assert (built.transform, built.expand, built.rerank, built.select) == ((), None, None, ())
    with pytest.raises(InvalidStage, match="retriever"):
        QueryPipeline(augment=CitedContext(), generate=ExtractiveGenerator())
    assert (Scope(filter=parse("a == 1")) & Scope()).filter == parse("a == 1")
