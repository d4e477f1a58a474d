"""The ingest path with containers: members are documents that belong to theirs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from ragstone.errors import ContentTooLarge, CorruptContent, NoText, StoreUnavailable
from ragstone.ingest import IngestPipeline, IngestResult
from ragstone.store.memory import MemoryStore
from ragstone.testing import FakeEmbedder
from ragstone.types import Blob, Chunk, DeletionReport, Document, LoadFailure, Vectors

pytestmark = pytest.mark.anyio


def box(name: str, *members: str) -> Blob:
    """A container; a member is `name=text`. Text that begins with `!` cannot be read."""
    return Blob(uri=f"file:///{name}", name=name, data="\n".join(("box", *members)).encode())


async def unpack(blob: Blob) -> AsyncGenerator[Blob | LoadFailure, None]:
    first, *lines = blob.data.decode().split("\n")
    for line in lines if first == "box" else ():
        name, _, text = line.partition("=")
        uri = f"{blob.uri}!/{name}"
        if name == "damage":
            raise ContentTooLarge("parse.members_many", name=blob.name, limit=3)
        if text == "?":
            yield LoadFailure(uri=uri, name=name, error=NoText("ingest.no_text", name=name))
        else:
            yield Blob(uri=uri, name=name, data=text.encode())


async def parse(blob: Blob) -> Document:
    text = blob.data.decode()
    if text.startswith("!"):
        raise CorruptContent("kb.document_not_found", reference=blob.name)
    return Document(text=text, uri=blob.uri, title=blob.name)


def split(document: Document) -> list[Chunk]:
    end = len(document.text)
    return [Chunk(text=document.text, document_id=document.document_id, index=0, start=0, end=end)]


class Recorder(MemoryStore):
    """Remembers the order in which documents came."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.fail_at = ""

    async def replace(self, document: Document, chunks: list[Chunk], vectors: Vectors) -> bool:  # type: ignore[override]
        if document.title == self.fail_at:
            raise StoreUnavailable("kb.document_not_found", reference="x")
        self.order.append(document.title)
        return await super().replace(document, chunks, vectors)

    async def delete(self, document_ids: list[str]) -> DeletionReport:  # type: ignore[override]
        if document_ids and self.fail_at == "delete":
            raise StoreUnavailable("kb.document_not_found", reference="x")
        return await super().delete(document_ids)


async def run(store: MemoryStore, *blobs: Blob) -> IngestResult:
    pipeline = IngestPipeline(
        parse=parse, split=split, embedder=FakeEmbedder(), store=store, unpack=unpack, parsers=2
    )

    async def stream() -> AsyncGenerator[Blob, None]:
        for blob in blobs:
            yield blob

    with anyio.fail_after(30):
        return await pipeline.run(stream())


async def uris(store: MemoryStore) -> set[str]:
    return set(await store.revisions("default"))


async def test_members_are_documents_and_the_container_comes_last() -> None:
    store = Recorder()
    result = await run(store, box("a.zip", "one=red", "two=green"), box("b.zip", "three=blue"), box("c.txt"))
    assert await uris(store) == {
        "file:///a.zip", "file:///a.zip!/one", "file:///a.zip!/two", "file:///b.zip", "file:///b.zip!/three",
        "file:///c.txt",
    }  # fmt: skip
    assert result.count("ready") == 6
    assert store.order.index("a.zip") > max(store.order.index("one"), store.order.index("two"))


async def test_an_unchanged_container_is_skipped_with_all_its_members() -> None:
    store = Recorder()
    await run(store, box("a.zip", "one=red", "two=green"))
    result = await run(store, box("a.zip", "one=red", "two=green"))
    assert [(file.name, file.status) for file in result.files] == [("a.zip", "unchanged")]


async def test_members_gone_from_a_changed_container_are_deleted_and_the_others_kept() -> None:
    store = Recorder()
    other = box("a.zipped", "one=other")
    await run(store, box("a.zip", "one=red", "two=green"), other)
    result = await run(store, box("a.zip", "two=green", "three=blue"), other)
    assert await uris(store) == {
        "file:///a.zip", "file:///a.zip!/two", "file:///a.zip!/three", "file:///a.zipped",
        "file:///a.zipped!/one",
    }  # fmt: skip
    assert {file.name: file.status for file in result.files} == {
        "two": "unchanged", "three": "ready", "a.zip": "ready", "a.zipped": "unchanged",
    }  # fmt: skip


async def test_members_that_fail_leave_their_reason_and_a_remark_on_the_container() -> None:
    store = Recorder()
    result = await run(store, box("a.zip", "bad=!", "worse=?", "good=green"))
    status = {file.name: file.status for file in result.files}
    assert status == {"bad": "failed", "worse": "failed", "good": "ready", "a.zip": "ready"}
    (container,) = [file for file in result.files if file.name == "a.zip"]
    assert [(remark.key, remark.values["count"]) for remark in container.warnings] == [
        ("ingest.members_failed", 2)
    ]


async def test_a_container_that_is_not_read_to_its_end_deletes_nothing_and_says_so() -> None:
    store = Recorder()
    await run(store, box("a.zip", "one=red", "two=green"))
    result = await run(store, box("a.zip", "one=blue", "damage="))
    assert "file:///a.zip!/two" in await uris(store)
    (container,) = [file for file in result.files if file.name == "a.zip"]
    assert [remark.key for remark in container.warnings] == ["parse.members_many"]


async def test_a_run_cut_short_reads_the_missing_members_the_next_time() -> None:
    store = Recorder()
    store.fail_at = "two"
    with pytest.raises(StoreUnavailable):
        await run(store, box("a.zip", "one=red", "two=green"))
    assert "file:///a.zip" not in await uris(store)
    store.fail_at = ""
    await run(store, box("a.zip", "one=red", "two=green"))
    assert await uris(store) == {"file:///a.zip", "file:///a.zip!/one", "file:///a.zip!/two"}


async def test_a_store_that_fails_while_members_are_deleted_ends_the_run_with_its_reason() -> None:
    store = Recorder()
    await run(store, box("a.zip", "one=red", "two=green"))
    store.fail_at = "delete"
    with pytest.raises(StoreUnavailable):
        await run(store, box("a.zip", "one=red"))


async def test_many_containers_and_members_do_not_wait_for_each_other_for_ever() -> None:
    store = Recorder()
    blobs = [box(f"{n}.zip", *(f"{n}-{m}=text {n} {m}" for m in range(40))) for n in range(12)]
    result = await run(store, *blobs)
    assert result.count("ready") == 12 * 41


async def test_a_container_that_is_met_twice_in_one_run_ends_twice() -> None:
    """A folder and a file in it are added together, so that the same archive comes again."""
    store = Recorder()
    twice = box("a.zip", "one=red", "two=!damaged", "three=blue")
    result = await run(store, twice, box("b.zip", "four=white"), twice, twice)
    assert await uris(store) == {
        "file:///a.zip", "file:///a.zip!/one", "file:///a.zip!/three", "file:///b.zip", "file:///b.zip!/four",
    }  # fmt: skip
    assert (result.count("ready"), result.count("failed")) == (5, 3)
    assert len(result.files) == 3 * 4 + 2
