"""Replacing, reading back, refusing, deleting."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import numpy as np
import pytest

from ragstone.errors import (
    CorruptContent,
    InvalidMetadata,
    InvalidStage,
    ModelMismatch,
    RagstoneError,
)
from ragstone.protocols import Store
from ragstone.testing.store_contract.passages import (
    EVERYTHING,
    HALF,
    MODEL,
    X,
    Y,
    one_passage,
    passages,
    put,
    texts,
    vectors,
)
from ragstone.types import Box, Chunk, Document, HeadingSpan, Hit, PageSpan, Remark, RowSpan, Vectors


@pytest.mark.anyio
class WritingContract:
    """Replacing, reading back, refusing, deleting."""

    async def test_a_document_comes_back_as_it_was_given(self, store: Store) -> None:
        document = Document(
            text="第一页 😀\nSecond \\ page 'quoted' \"twice\"\t%s {x}",
            uri="file:///数据/a b.pdf",
            title="Título “é”",
            media_type="application/pdf",
            base_id="one",
            pages=(PageSpan(number=1, start=0, end=5), PageSpan(number=2, start=6, end=12)),
            headings=(HeadingSpan(path=("第一章", "1.1"), start=0, end=5),),
            warnings=(Remark(key="parse.pages_damaged", values={"name": "第 2 页", "pages": 2}),),
            rows=(RowSpan(first=3, last=4, start=0, end=20),),
            boxes=(Box(page=2, start=6, end=12, x0=72.5, y0=0.0, x1=540.0, y1=90.1),),
            metadata={
                "text": "x'); --",
                "int": 2**62,
                "float": 1.0,
                "tiny": 5e-324,
                "huge": 1e300,
                "near": float(2**62),
                "yes": True,
                "when": datetime(2024, 5, 1, 8, 30, 0, 1, tzinfo=timezone(timedelta(hours=8))),
                "list": ("b", "a"),
                "numbers": (1, 2.5),
                "dates": (datetime(2020, 1, 1, tzinfo=UTC),),
                "none": (),
                "a.dotted key": "{}",
            },
        )
        chunk = Chunk(
            text=document.text[0:5],
            document_id=document.document_id,
            index=0,
            start=0,
            end=5,
            page=1,
            context="第一章",
            headings=("第一章", "1.1"),
            metadata=document.metadata,
            parent=(0, 12),
        )
        assert await store.replace(document, [chunk], vectors(X))
        stored = await store.document(document.document_id)
        assert stored == document
        kinds = {key: type(value) for key, value in document.metadata.items()}
        assert stored is not None
        assert {key: type(value) for key, value in stored.metadata.items()} == kinds
        (hit,) = await store.fetch([chunk.chunk_id])
        assert hit == Hit(chunk=chunk, uri=document.uri, title=document.title, base_id="one")
        assert await store.document("no such id") is None

    async def test_a_passage_that_is_read_says_where_each_part_of_it_stands(self, store: Store) -> None:
        text = "alpha on page one\nbeta on page two"
        second = text.index("beta")
        pages = (PageSpan(number=4, start=0, end=second), PageSpan(number=5, start=second, end=len(text)))
        await store.replace(*one_passage(text, uri="u:1", pages=pages), vectors(X))
        headings = (
            HeadingSpan(path=("A",), start=0, end=second),
            HeadingSpan(path=("A", "B"), start=second, end=len(text)),
        )
        await store.replace(*one_passage(text, uri="u:2", headings=headings), vectors(Y))
        found = [
            *await store.search_text("beta", scope=EVERYTHING, top_k=2),
            *await store.search_vector(vectors(X), scope=EVERYTHING, top_k=2),
        ]
        assert {hit.uri for hit in found} == {"u:1", "u:2"}
        for hit in [*found, *await store.fetch([hit.chunk.chunk_id for hit in found])]:
            (near,) = await store.neighbours(hit.chunk.chunk_id, 1)
            for chunk in (hit.chunk, near.chunk):
                place = chunk.place(second, second + 4)
                if hit.uri == "u:1":
                    assert (chunk.page, chunk.page_end, place.page) == (4, 5, 5)
                else:
                    assert (chunk.place().section, place.section) == (("A",), ("A", "B"))

    async def test_a_passage_of_a_table_knows_the_numbers_of_its_rows(self, store: Store) -> None:
        lines = [f"| row {number} |" for number in range(10)]
        text = "\n".join(lines)
        start, end = text.index("| row 4"), text.index("\n| row 8")
        rows = (
            RowSpan(first=20, last=25, start=0, end=text.index("\n| row 6")),
            RowSpan(first=40, last=43, start=text.index("| row 6"), end=len(text)),
        )
        document, chunks = one_passage(text, uri="u:1", rows=rows, start=start, end=end)
        await store.replace(document, chunks, vectors(X))
        (hit,) = await store.search_text("row", scope=EVERYTHING, top_k=2)
        places = [hit.chunk.place(at, at + 5) for at in (text.index(f"row {n}") for n in (4, 5, 6, 7))]
        assert [place.row for place in places] == [24, 25, 40, 41]
        assert (hit.chunk.place().row, hit.chunk.place().row_end) == (24, 41)

    async def test_an_equal_revision_writes_nothing(self, store: Store) -> None:
        document, chunks = passages("u:1", "alpha", revision="r1")
        assert await store.replace(document, chunks, vectors(X))
        assert not await store.replace(document, chunks, vectors(Y))
        (hit,) = await store.search_vector(vectors(X), scope=EVERYTHING, top_k=5)
        assert hit.score == pytest.approx(1.0, abs=HALF)

    async def test_a_new_revision_takes_the_place_of_the_old(self, store: Store) -> None:
        """A31, C4: nothing of the old version is found."""
        await put(store, "u:1", "alpha", "beta", "gamma", revision="r1")
        document = await put(store, "u:1", "delta", rows=[Y], revision="r2")
        assert await store.count(EVERYTHING) == 1
        assert await store.revisions("one") == {"u:1": "r2"}
        assert await store.document(document.document_id) == document
        assert await store.search_text("alpha beta", scope=EVERYTHING, top_k=5) == []
        assert texts(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=5)) == ["delta"]

    async def test_equal_text_under_two_sources_is_two_documents(self, store: Store) -> None:
        """W09: a document is one of its base, not of its content."""
        await put(store, "u:1", "alpha")
        await put(store, "u:2", "alpha")
        await put(store, "u:1", "alpha", base_id="two")
        assert await store.count(EVERYTHING) == 3
        assert set(await store.revisions("one")) == {"u:1", "u:2"}
        assert await store.revisions("three") == {}

    async def test_revisions_of_a_document_are_its_own_and_its_members(self, store: Store) -> None:
        for uri in ("u:1", "u:1!/a", "u:1!/é!/b", "u:1!0", "u:10", "u:1!", "U:1!/a"):
            await put(store, uri, "alpha")
        await put(store, "u:1", "alpha", base_id="two")
        assert set(await store.revisions("one", uri="u:1")) == {"u:1", "u:1!/a", "u:1!/é!/b"}
        assert set(await store.revisions("two", uri="u:1")) == {"u:1"}
        assert await store.revisions("one", uri="u:2") == {}
        assert await store.revisions("one", uri="u:\0") == {}

    async def test_a_document_may_have_no_chunks(self, store: Store) -> None:
        document = Document(text="", uri="u:1", base_id="one")
        empty = Vectors(model=MODEL, values=np.zeros((0, 3), dtype=np.float32))
        assert await store.replace(document, [], empty)
        assert await store.document(document.document_id) == document
        assert await store.count(EVERYTHING) == 0

    @pytest.mark.parametrize(
        ("change", "error", "key"),
        [
            ({"text": "Alpha"}, InvalidStage, "core.chunk_offsets"),
            ({"start": 1}, InvalidStage, "core.chunk_offsets"),
            ({"start": -5, "end": 0, "text": ""}, InvalidStage, "core.chunk_offsets"),
            ({"document_id": "other"}, InvalidStage, "store.foreign_chunk"),
            ({"index": 1}, InvalidStage, "store.chunk_index"),
            ({"index": -1}, InvalidStage, "store.chunk_index"),
            ({"chunk_id": "second"}, InvalidStage, "store.chunk_twice"),
            ({"chunk_id": "taken"}, InvalidStage, "store.chunk_taken"),
            ({"parent": (1, 5)}, InvalidStage, "store.parent"),
            ({"parent": (0, 99)}, InvalidStage, "store.parent"),
            ({"context": "nul \x00"}, CorruptContent, "store.text"),
            ({"context": "half \ud800"}, CorruptContent, "store.text"),
            ({"metadata": {"a": {"nested": 1}}}, InvalidMetadata, "core.metadata_value"),
            ({"metadata": {"a": float("nan")}}, InvalidMetadata, "core.metadata_value"),
            ({"metadata": {"a": "\udfff"}}, InvalidMetadata, "store.metadata_text"),
        ],
    )
    async def test_a_chunk_that_cannot_be_stored_leaves_everything_as_it_was(
        self, store: Store, change: dict[str, object], error: type[RagstoneError], key: str
    ) -> None:
        other, other_chunks = passages("u:0", "elsewhere")
        taken = replace(other_chunks[0], chunk_id="taken")
        await store.replace(other, [taken], vectors(X))
        await put(store, "u:1", "before", revision="r1")
        document, chunks = passages("u:1", "alpha", "beta", revision="r2")
        first = replace(chunks[0], **cast("dict[str, Any]", change))
        second = replace(chunks[1], chunk_id="second")
        with pytest.raises(error) as caught:
            await store.replace(document, [first, second], vectors(X, Y))
        assert caught.value.key == key
        assert await store.count(EVERYTHING) == 2
        assert await store.revisions("one") == {"u:0": other.revision, "u:1": "r1"}

    @pytest.mark.parametrize("change", [{"end": 99}, {"start": -1}, {"x0": float("nan")}])
    async def test_a_box_outside_the_text_or_the_page_is_refused(
        self, store: Store, change: dict[str, Any]
    ) -> None:
        document, chunks = passages("u:1", "alpha")
        box = Box(page=1, start=0, end=5, x0=0.0, y0=0.0, x1=1.0, y1=1.0)
        with pytest.raises(InvalidStage) as caught:
            await store.replace(replace(document, boxes=(replace(box, **change),)), chunks, vectors(X))
        assert caught.value.key == "store.box"

    @pytest.mark.parametrize("text", ["nul \x00 inside", "half \udc00 pair"])
    async def test_text_that_no_database_holds_is_refused(self, store: Store, text: str) -> None:
        document, chunks = passages("u:1", text)
        with pytest.raises(CorruptContent):
            await store.replace(document, chunks, vectors(X))

    @pytest.mark.parametrize(
        ("uri", "base_id"),
        [("u:\x00", "one"), ("u:1", " "), ("u:" + "书" * 1_000, "one"), ("u:1", "b" * 300)],
    )
    async def test_names_that_cannot_be_keys_are_refused(self, store: Store, uri: str, base_id: str) -> None:
        document, chunks = passages(uri, "alpha", base_id=base_id)
        with pytest.raises(InvalidMetadata):
            await store.replace(document, chunks, vectors(X))

    @pytest.mark.parametrize(
        ("rows", "key"),
        [
            ([X, Y], "store.vector_count"),
            ([(float("nan"), 0.0, 0.0)], "store.vector_nan"),
            ([(float("inf"), 0.0, 0.0)], "store.vector_nan"),
            ([(1.0, 0.0)], "store.dimension"),
        ],
    )
    async def test_vectors_that_cannot_be_compared_are_refused(
        self, store: Store, rows: list[tuple[float, ...]], key: str
    ) -> None:
        await put(store, "u:0", "alpha")
        document, chunks = passages("u:1", "beta")
        with pytest.raises(ModelMismatch) as caught:
            await store.replace(document, chunks, vectors(*rows))
        assert caught.value.key == key
        assert await store.count(EVERYTHING) == 1

    async def test_a_base_holds_the_vectors_of_one_model(self, store: Store) -> None:
        """D1, C20: two models never meet, and the mistake is said with both names."""
        first = await put(store, "u:1", "alpha")
        document, chunks = passages("u:2", "beta")
        with pytest.raises(ModelMismatch) as caught:
            await store.replace(document, chunks, vectors(X, model="other"))
        assert caught.value.key == "store.model"
        assert "one" in str(caught.value)
        assert MODEL in str(caught.value)
        await store.delete([first.document_id])
        assert await store.replace(document, chunks, vectors((1.0, 0.0), model="other"))

    async def test_a_document_id_belongs_to_one_source(self, store: Store) -> None:
        await store.replace(Document(text="a", uri="u:1", document_id="d", base_id="one"), [], _none())
        with pytest.raises(InvalidStage) as caught:
            await store.replace(Document(text="b", uri="u:2", document_id="d", base_id="one"), [], _none())
        assert caught.value.key == "store.document_taken"
        assert await store.revisions("one") == {"u:1": Document(text="a").revision}

    async def test_deleting_removes_all_that_belongs_and_counts_it(self, store: Store) -> None:
        """D7, C2, C7: one document can go, and is not found again."""
        gone = await put(store, "u:1", "alpha", "beta")
        kept = await put(store, "u:2", "alpha")
        report = await store.delete([gone.document_id, "unknown", gone.document_id, "\x00"])
        assert report.document_ids == (gone.document_id,)
        assert dict(report.rows) == {
            "documents": 1,
            "generation_documents": 1,
            "chunks": 2,
            "vectors": 2,
        }
        assert await store.document(gone.document_id) is None
        assert await store.revisions("one") == {"u:2": kept.revision}
        assert texts(await store.search_text("alpha", scope=EVERYTHING, top_k=5)) == ["alpha"]
        assert await store.count(EVERYTHING) == 1
        assert (await store.delete([])).document_ids == ()

    async def test_many_documents_are_deleted_in_one_call(self, store: Store) -> None:
        """D7"""
        documents = [await put(store, f"u:{n}", "alpha", "beta") for n in range(230)]
        kept = await put(store, "u:kept", "alpha")
        report = await store.delete([document.document_id for document in documents])
        assert report.document_ids == tuple(sorted(document.document_id for document in documents))
        assert dict(report.rows) == {
            "documents": 230,
            "generation_documents": 230,
            "chunks": 460,
            "vectors": 460,
        }
        assert await store.revisions("one") == {"u:kept": kept.revision}

    async def test_known_vectors_come_back_by_hash_and_model(self, store: Store) -> None:
        _, chunks = passages("u:1", "alpha", "beta")
        await put(store, "u:1", "alpha", "beta", rows=[X, (0.6, 0.8, 0.0)])
        hashes = [chunk.embedding_hash for chunk in chunks]
        found = await store.known_vectors(MODEL, [*hashes, "unknown"])
        assert set(found) == set(hashes)
        assert found[hashes[1]] == pytest.approx([0.6, 0.8, 0.0], abs=HALF)
        assert found[hashes[1]].dtype == np.float32
        assert await store.known_vectors("other", hashes) == {}
        # What comes back may be stored again and stays what it is.
        await put(store, "u:2", "beta", rows=[found[hashes[1]].tolist()])
        again = await store.known_vectors(MODEL, hashes)
        assert again[hashes[1]].tolist() == found[hashes[1]].tolist()

    async def test_token_vectors_come_back_by_hash_and_go_with_their_document(self, store: Store) -> None:
        """A52, D7: what the best hits are compared by, and nothing where a text has none."""
        document, chunks = passages("u:1", "alpha", "beta", "gamma")
        kept = [np.array([[160], [64]], np.uint8), np.zeros((0, 1), np.uint8), np.array([[96]], np.uint8)]
        vectors = Vectors(model=MODEL, values=np.eye(3, dtype=np.float32), token_vectors=kept)
        await store.replace(document, chunks, vectors)
        hashes = [chunk.embedding_hash for chunk in chunks]
        found = await store.token_vectors(MODEL, [*hashes, "unknown", "\x00"])
        assert {name: tokens.tolist() for name, tokens in found.items()} == {
            hashes[0]: [[160], [64]],
            hashes[2]: [[96]],
        }
        assert await store.token_vectors("other", hashes) == {}
        await put(store, "u:2", "delta")
        assert await store.token_vectors(MODEL, [passages("u:2", "delta")[1][0].embedding_hash]) == {}
        with pytest.raises(ModelMismatch):
            await store.replace(document, chunks, replace(vectors, token_vectors=kept[:2]))
        await store.delete([document.document_id])
        assert await store.token_vectors(MODEL, hashes) == {}


def _none() -> Vectors:
    return Vectors(model=MODEL, values=np.zeros((0, 3), dtype=np.float32))
