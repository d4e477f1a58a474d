"""The ingest path with small parts: overlap, reuse, failures, cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from ragstone.errors import (
    ContentRefused,
    CorruptContent,
    InvalidMetadata,
    InvalidStage,
    ModelMismatch,
    NoText,
    StoreUnavailable,
    TextTooLong,
)
from ragstone.ingest import ChunksEmbedded, FileResult, IngestPipeline
from ragstone.store.memory import MemoryStore
from ragstone.testing import FakeEmbedder
from ragstone.types import Blob, Chunk, Document, LoadFailure, Scope, Vectors

pytestmark = pytest.mark.anyio


def blob(name: str, text: str) -> Blob:
    return Blob(uri=f"file:///{name}", name=name, data=text.encode())


async def parse(source: Blob) -> Document:
    text = source.data.decode()
    if text.startswith("broken"):
        raise CorruptContent("kb.document_not_found", reference=source.name)
    return Document(text=text, uri=source.uri, title=source.name)


def split(document: Document) -> list[Chunk]:
    """One chunk a line."""
    chunks: list[Chunk] = []
    start = 0
    for line in document.text.splitlines(keepends=True):
        if line.strip():
            chunks.append(
                Chunk(
                    text=line.strip(),
                    document_id=document.document_id,
                    index=len(chunks),
                    start=start,
                    end=start + len(line.strip()),
                )
            )
        start += len(line)
    return chunks


async def stream(*items: Blob | LoadFailure) -> AsyncIterator[Blob | LoadFailure]:
    for item in items:
        yield item


def pipeline(store: MemoryStore, embedder: FakeEmbedder, **more: object) -> IngestPipeline:
    return IngestPipeline(parse=parse, split=split, store=store, embedder=embedder, **more)  # type: ignore[arg-type]


async def test_every_blob_ends_ready_or_with_its_reason_and_the_others_go_on() -> None:
    store, events = MemoryStore(), []
    failure = LoadFailure(uri="file:///gone", name="gone", error=NoText("ingest.no_text", name="gone"))
    result = await pipeline(store, FakeEmbedder()).run(
        stream(
            blob("a", "red apple\ngreen pear"),
            blob("b", "broken"),
            failure,
            blob("c", " \n"),
            blob("d", "plum"),
        ),
        on_event=events.append,
    )
    ended = {file.name: (file.status, type(file.error).__name__) for file in result.files}
    assert ended == {
        "a": ("ready", "NoneType"),
        "b": ("failed", "CorruptContent"),
        "gone": ("failed", "NoText"),
        "c": ("failed", "NoText"),
        "d": ("ready", "NoneType"),
    }
    assert (result.embedded, result.chunks, await store.count(Scope())) == (3, 3, 3)
    assert [event for event in events if isinstance(event, FileResult)] == list(result.files)
    assert sum(event.chunks for event in events if isinstance(event, ChunksEmbedded)) == 3


async def test_an_unchanged_blob_is_neither_parsed_nor_embedded_again() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    parsed: list[str] = []

    async def counting(source: Blob) -> Document:
        parsed.append(source.name)
        return await parse(source)

    ingest = IngestPipeline(parse=counting, split=split, store=store, embedder=embedder)
    await ingest.run(stream(blob("a", "one"), blob("b", "two")))
    before = len(embedder.texts_embedded)
    result = await ingest.run(stream(blob("a", "one"), blob("b", "two and a half")))
    assert {file.name: file.status for file in result.files} == {"a": "unchanged", "b": "ready"}
    assert sorted(parsed) == ["a", "b", "b"]
    assert len(embedder.texts_embedded) == before + 1
    assert [hit.chunk.text for hit in await store.search_text("two", scope=Scope(), top_k=9)] == [
        "two and a half"
    ]


async def test_other_settings_or_another_splitter_size_read_the_blob_again() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    await pipeline(store, embedder, settings="300/30").run(stream(blob("a", "one")))
    result = await pipeline(store, embedder, settings="200/20").run(stream(blob("a", "one")))
    assert result.count("ready") == 1
    assert (result.embedded, result.reused) == (0, 1)


async def test_equal_text_is_embedded_once_also_across_documents_and_runs() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    result = await pipeline(store, embedder).run(stream(blob("a", "same\nsame\nother")))
    assert (result.chunks, result.embedded) == (3, 2)
    again = await pipeline(store, embedder).run(stream(blob("c", "other\nsame\nnew")))
    assert (again.embedded, again.reused) == (1, 2)
    found = await store.search_vector(await embedder.embed_queries(["other"]), scope=Scope(), top_k=2)
    assert {hit.chunk.text for hit in found} == {"other"}
    assert [hit.on("cosine") for hit in found] == pytest.approx([1.0, 1.0], abs=1e-3)


async def test_a_text_the_model_cannot_read_fails_its_document_only() -> None:
    class Short(FakeEmbedder):
        async def embed_documents(self, texts: list[str]) -> Vectors:  # type: ignore[override]
            for index, text in enumerate(texts):
                if len(text) > 20:
                    raise TextTooLong("core.query_long", length=index, limit=20)
            return await super().embed_documents(texts)

    result = await pipeline(MemoryStore(), Short()).run(
        stream(blob("a", "short"), blob("b", "far too long for this model"), blob("c", "small"))
    )
    assert {file.name: file.status for file in result.files} == {"a": "ready", "b": "failed", "c": "ready"}


async def test_a_text_that_a_provider_s_filter_refuses_fails_its_document_alone() -> None:
    class Filtering(FakeEmbedder):
        async def embed_documents(self, texts: list[str]) -> Vectors:  # type: ignore[override]
            if any("forbidden" in text for text in texts):
                raise ContentRefused("embed.filtered", url="http://localhost", model="m", reason="filter")
            return await super().embed_documents(texts)

    result = await pipeline(MemoryStore(), Filtering()).run(
        stream(blob("a", "fine"), blob("b", "a forbidden word"), blob("c", "fine too"))
    )
    assert {file.name: file.status for file in result.files} == {"a": "ready", "b": "failed", "c": "ready"}
    assert isinstance(next(file for file in result.files if file.name == "b").error, ContentRefused)


async def test_a_store_that_fails_ends_the_run_with_its_own_error_and_keeps_what_was_stored() -> None:
    class Failing(MemoryStore):
        async def replace(self, document: Document, chunks: list[Chunk], vectors: Vectors) -> bool:  # type: ignore[override]
            if document.title == "b":
                raise StoreUnavailable("kb.document_not_found", reference="b")
            return await super().replace(document, chunks, vectors)

    store = Failing()
    with pytest.raises(StoreUnavailable):
        await pipeline(store, FakeEmbedder(), parsers=1).run(
            stream(*(blob(name, f"text {name}") for name in "abcdefghijklmnop"))
        )
    assert await store.count(Scope()) >= 1


async def test_a_document_the_store_cannot_hold_fails_alone() -> None:
    deep = "d" * 2_100  # an address longer than a store holds
    result = await pipeline(MemoryStore(), FakeEmbedder()).run(
        stream(blob("a", "one"), blob(deep, "two"), blob("b", "three"))
    )
    assert {file.name[:1]: file.status for file in result.files} == {
        "a": "ready",
        "d": "failed",
        "b": "ready",
    }
    (failed,) = (file for file in result.files if file.status == "failed")
    assert isinstance(failed.error, InvalidMetadata)


def test_no_files_at_once_is_refused() -> None:
    with pytest.raises(InvalidStage):
        pipeline(MemoryStore(), FakeEmbedder(), parsers=0)


async def test_a_base_of_another_model_is_refused() -> None:
    store = MemoryStore()
    await pipeline(store, FakeEmbedder()).run(stream(blob("a", "one")))
    with pytest.raises(ModelMismatch):
        await pipeline(store, FakeEmbedder(dimension=32)).run(stream(blob("b", "two")))


async def test_bases_keep_equal_blobs_apart() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    for base in ("x", "y"):
        await pipeline(store, embedder).run(stream(blob("a", f"one {base}")), base_id=base)
    assert await store.count(Scope()) == 2
    assert await store.count(Scope(bases=("x",))) == 1


async def test_cancelling_leaves_whole_documents_and_the_next_run_goes_on() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()
    blobs = [blob(f"n{number}", f"word{number}\nmore{number}") for number in range(50)]
    done = anyio.Event()

    def stop_after_five(event: object) -> None:
        if isinstance(event, FileResult) and event.name == "n5":
            done.set()

    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await pipeline(store, embedder).run(stream(*blobs), on_event=stop_after_five)

        tasks.start_soon(run)
        await done.wait()
        tasks.cancel_scope.cancel()
    stored = await store.revisions("default")
    assert await store.count(Scope()) == 2 * len(stored)
    result = await pipeline(store, embedder).run(stream(*blobs))
    assert result.count("unchanged") == len(stored)
    assert await store.count(Scope()) == 100


async def test_memory_stays_flat_readers_wait_for_the_store() -> None:
    """The loader is never more than the queues ahead of what is stored."""
    ahead: list[int] = []
    loaded = 0

    async def counting() -> AsyncIterator[Blob]:
        nonlocal loaded
        for number in range(200):
            loaded += 1
            yield blob(f"n{number}", f"word{number}\n" * 70)

    stored = 0

    class Slow(MemoryStore):
        async def replace(self, document: Document, chunks: list[Chunk], vectors: Vectors) -> bool:  # type: ignore[override]
            nonlocal stored
            stored += 1
            ahead.append(loaded - stored)
            return await super().replace(document, chunks, vectors)

    await pipeline(Slow(), FakeEmbedder()).run(counting())
    assert len(ahead) == 200
    assert max(ahead) <= 20
