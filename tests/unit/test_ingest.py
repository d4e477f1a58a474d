"""The ingest path with small parts: overlap, reuse, failures, cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial

import anyio
import pytest

from ragstone.clean import chained, clean, enriched, keep_if, prefixed
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
from ragstone.ingest import ChunksEmbedded, FileResult, IngestPipeline, PagesRead
from ragstone.protocols import Cleaner
from ragstone.split import RecursiveSplitter
from ragstone.store.memory import MemoryStore
from ragstone.testing import FakeEmbedder
from ragstone.trace import page
from ragstone.types import Blob, Chunk, Document, LoadFailure, Scope, Unchanged, Vectors, digest

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
    """C1, C6: adding again doubles nothing."""
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


async def test_token_vectors_are_kept_and_reused_with_their_text() -> None:
    """A52: a text that was embedded before keeps what the best hits are compared by."""
    store, embedder = MemoryStore(), FakeEmbedder(token_vectors=True)
    for name in ("one", "two"):
        document = f"red green\n{'' if name == 'one' else 'blue'}"
        await pipeline(store, embedder).run(stream(blob(name, document)))
    assert sorted(embedder.texts_embedded) == ["blue", "red green"]
    found = await store.search_vector(await embedder.embed_queries(["red"]), scope=Scope(), top_k=9)
    hashes = [hit.chunk.embedding_hash for hit in found]
    tokens = await store.token_vectors(embedder.identity, hashes)
    assert sorted(len(tokens[name]) for name in hashes) == [1, 2, 2]
    await store.delete([hit.chunk.document_id for hit in found if hit.uri.endswith("one")])
    assert set(await store.token_vectors(embedder.identity, hashes)) == set(hashes)


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
    """W10, C4, C9: nothing is left half done or stuck."""
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


async def test_the_result_counts_documents_chunks_tokens_reuse_failures_and_seconds() -> None:
    """A26, A85, C10: what a run says when it is done; A30: the chunks went in groups of bounded size."""
    store, embedder = MemoryStore(), Counted()
    lines = "\n".join(f"line {number}" for number in range(150))
    failed = LoadFailure(uri="file:///x", name="x", error=NoText("load.empty", name="x"))
    files = stream(blob("a.txt", lines), blob("b.txt", "line 1\nother"), blob("c.txt", "broken"), failed)
    result = await pipeline(store, embedder).run(files)
    assert (result.count("ready"), result.count("failed"), result.chunks) == (2, 2, 152)
    assert result.embedded == 151
    assert result.tokens == embedder.tokens > 151
    assert {file.name: file.error.key for file in result.files if file.error} == {
        "c.txt": "kb.document_not_found",
        "x": "load.empty",
    }
    assert set(result.seconds) == {"load", "parse", "split", "known", "embed", "store"}
    assert all(seconds >= 0 for seconds in result.seconds.values())
    assert max(embedder.sizes) <= 64
    again = await pipeline(store, embedder).run(stream(blob("d.txt", "line 7\nnew")))
    assert (again.embedded, again.reused) == (1, 1)


class Counted(FakeEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.tokens = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.sizes.append(len(texts))
        vectors = await super().embed_documents(texts)
        self.tokens += vectors.tokens
        return vectors


async def test_a_document_of_more_than_10_000_chunks_loses_none() -> None:
    """W07, C5: nothing is dropped, however many and however short."""
    store = MemoryStore()
    lines = [f"{number}" for number in range(10_500)]
    result = await pipeline(store, FakeEmbedder()).run(stream(blob("a.txt", "\n".join(lines))))
    assert (result.chunks, await store.count(Scope())) == (10_500, 10_500)


async def test_a_dry_run_counts_what_a_run_would_do_and_does_nothing() -> None:
    store, embedder = MemoryStore(), Counted()
    await pipeline(store, embedder).run(stream(blob("a.txt", "one\ntwo")))
    embedder.sizes.clear()
    files = (blob("a.txt", "one\nthree"), blob("b.txt", "three\nfour"), blob("c.txt", "broken"))
    plan = await pipeline(store, embedder).run(stream(*files), dry_run=True)
    assert embedder.sizes == []
    assert await store.revisions("default") == {"file:///a.txt": (await known(store))["file:///a.txt"]}
    assert await store.count(Scope()) == 2
    done = await pipeline(store, embedder).run(stream(*files))
    for result in (plan, done):
        assert (result.count("ready"), result.count("failed"), result.chunks) == (2, 1, 4)
    assert (plan.embedded, plan.tokens) == (done.embedded, done.tokens)


async def known(store: MemoryStore) -> dict[str, str]:
    return dict(await store.revisions("default"))


async def test_an_unchanged_source_is_told_without_its_content() -> None:
    result = await pipeline(MemoryStore(), FakeEmbedder()).run(stream(Unchanged(uri="http://x/", name="x")))  # type: ignore[arg-type]
    assert [(file.uri, file.status) for file in result.files] == [("http://x/", "unchanged")]


async def test_pages_are_told_while_a_parser_reads_them() -> None:
    """C13: a scan of many pages takes minutes, and says where it is."""

    async def scan(source: Blob) -> Document:
        for done in range(3):
            page(done, 3)
        return await parse(source)

    events: list[object] = []
    reading = IngestPipeline(parse=scan, split=split, store=MemoryStore(), embedder=FakeEmbedder())
    await reading.run(stream(blob("scan.pdf", "text")), on_event=events.append)
    pages = [event for event in events if isinstance(event, PagesRead)]
    assert [(event.name, event.done, event.pages) for event in pages] == [
        ("scan.pdf", 0, 3), ("scan.pdf", 1, 3), ("scan.pdf", 2, 3),
    ]  # fmt: skip


async def test_only_a_store_and_an_embedder_are_needed() -> None:
    """A26: one blob, several, or a stream; files are parsed and split without being told how."""
    store = MemoryStore()
    simple = IngestPipeline(store=store, embedder=FakeEmbedder())
    text = "# Ferry\n\n" + "The ferry leaves Halm at 22:15. " * 200
    with anyio.fail_after(60):
        one = await simple.run(blob("ferry.md", text))
        several = await simple.run([blob("ferry.md", text), blob("b.html", "<html><p>Herons")])
    assert (one.count("ready"), one.chunks > 3) == (1, True)
    assert (several.count("unchanged"), several.count("ready")) == (1, 1)
    hits = await store.search_text("herons", scope=Scope(), top_k=3)
    assert [hit.chunk.text for hit in hits] == ["Herons"]


# --- what names the stages -------------------------------------------------------------


def owned(owner: str) -> Cleaner:
    return enriched({"owner": owner})


async def test_a_changed_stage_reads_the_document_again() -> None:
    """The owner in the metadata is the new one, and nothing is embedded for it."""
    store, embedder = MemoryStore(), FakeEmbedder()
    first = pipeline(store, embedder, clean=[owned("ann")])
    assert (await first.run(blob("a.txt", "the lake"))).count("ready") == 1
    again = pipeline(store, embedder, clean=[owned("ann")])
    assert (await again.run(blob("a.txt", "the lake"))).count("unchanged") == 1
    result = await pipeline(store, embedder, clean=[owned("bob")]).run(blob("a.txt", "the lake"))
    assert (result.count("ready"), result.embedded) == (1, 0)
    document = await store.document(result.files[0].document_id)
    assert document is not None
    assert document.metadata["owner"] == "bob"


def test_every_change_of_a_stage_changes_the_revision_and_a_new_process_does_not() -> None:
    store, embedder = MemoryStore(), FakeEmbedder()

    def revision(**more: object) -> str:
        return IngestPipeline(store=store, embedder=embedder, **more).revision("content")  # type: ignore[arg-type]

    revisions = {
        revision(),
        revision(clean=[clean]),
        revision(clean=[owned("ann")]),
        revision(clean=[owned("bob")]),
        revision(clean=[owned("ann"), clean]),
        revision(clean=[chained(clean, owned("ann"))]),
        revision(transform=[prefixed("file_name")]),
        revision(transform=[prefixed("file_name", limit=9)]),
        revision(split=RecursiveSplitter(max_size=9, overlap=0)),
        revision(split=RecursiveSplitter(max_size=10, overlap=0)),
    }
    assert len(revisions) == 10
    assert revision(clean=[owned("ann")]) == revision(clean=[owned("ann")])


def test_what_was_stored_with_the_stages_that_stand_in_stays_unchanged() -> None:
    """The revisions that the first build made, of the library and of the application's settings."""
    store, embedder = MemoryStore(), FakeEmbedder()
    standing_in = IngestPipeline(store=store, embedder=embedder)
    assert standing_in.revision("content") == "0b9703a871659f6437649026"
    named = IngestPipeline(store=store, embedder=embedder, clean=[clean], settings="4/ocr/2")
    assert named.revision("content") == digest("content", "4/ocr/2")


@pytest.mark.parametrize(
    "stage",
    [lambda document: document, partial(replace, title="x"), keep_if(lambda document: True), object()],
)
def test_a_stage_that_cannot_be_named_is_refused_with_what_to_write(stage: object) -> None:
    with pytest.raises(InvalidStage, match=r"revision = \"1\"") as caught:
        pipeline(MemoryStore(), FakeEmbedder(), clean=[stage])
    assert caught.value.code == "ingest.no_revision"
    pipeline(MemoryStore(), FakeEmbedder(), clean=[stage], settings="mine/1")
