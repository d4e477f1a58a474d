"""Wrong use of the library: where the meaning is plain it is taken, else a sentence says what to write."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import pytest

from ragstone import (
    Assistant,
    Blocking,
    CitedContext,
    Document,
    ExtractiveGenerator,
    IngestPipeline,
    MemoryStore,
    Message,
    Query,
    QueryPipeline,
    Scope,
    StoreRetriever,
    WindowMemory,
)
from ragstone.embed.openai import OpenAIEmbedder
from ragstone.errors import InvalidFilter, InvalidMetadata, InvalidQuery, InvalidStage, RagstoneError
from ragstone.filters import In
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel

pytestmark = pytest.mark.anyio

FERRY = "The ferry leaves Halm at 22:15. Dogs travel free of charge."


async def filled(**more: Any) -> tuple[MemoryStore, FakeEmbedder]:
    store, embedder = MemoryStore(), FakeEmbedder()
    ingest = IngestPipeline(store=store, embedder=embedder, **more)
    result = await ingest.run(Document(text=FERRY, uri="file:///ferry.txt", title="Ferry"))
    assert result.count("ready") == 1
    return store, embedder


def asking(store: MemoryStore, embedder: FakeEmbedder, **more: Any) -> QueryPipeline:
    retriever = StoreRetriever(store=store, embedder=embedder)
    options: dict[str, Any] = {"augment": CitedContext(), "generate": ExtractiveGenerator()}
    return QueryPipeline(retrievers=[retriever], **options | more)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: Scope(bases="lake"), InvalidQuery),
        (lambda: In("k", "abc"), InvalidFilter),  # type: ignore[arg-type]
        (lambda: Message(role="tool", content="x"), InvalidQuery),  # type: ignore[arg-type]
        (lambda: Message(role="user", content=7), InvalidQuery),  # type: ignore[arg-type]
        (lambda: Document(text="x", metadata={7: "x"}), InvalidMetadata),  # type: ignore[dict-item]
    ],
)
def test_a_value_of_another_kind_is_refused(wrong: Callable[[], object], kind: type[RagstoneError]) -> None:
    with pytest.raises(kind):
        wrong()


async def test_one_text_where_a_list_belongs_is_refused() -> None:
    store, embedder = await filled()
    for wrong in (
        embedder.embed_documents("document"),
        embedder.embed_queries("question"),
        store.delete("id"),
        store.fetch("id"),
        store.set_enabled("id", False),
    ):
        with pytest.raises(InvalidQuery) as caught:
            await wrong
        assert caught.value.code == "core.list_of_texts"
    assert await store.count(Scope()) == 1


@pytest.mark.parametrize("size", [-1, 0, True, 2.5])
async def test_a_batch_holds_at_least_one_text(size: Any) -> None:
    with pytest.raises(InvalidStage):
        await OpenAIEmbedder.open(base_url="http://localhost:1/v1", model="m", batch_size=size, dimension=3)


async def test_a_conversation_has_an_id_and_without_one_nothing_is_kept() -> None:
    memory = WindowMemory()
    for wrong in ("", "  "):
        with pytest.raises(InvalidQuery):
            await memory.add(wrong, [Message(role="user", content="x")])
    store, embedder = await filled()
    talking = Assistant(pipeline=asking(store, embedder), memory=memory)
    await talking.ask("When does the ferry leave?")
    await talking.ask("And the dogs?")
    assert memory._chats == {}
    with pytest.raises(InvalidQuery):
        await talking.ask("When?", chat_id="  ")
    await talking.ask("When does the ferry leave?", chat_id="anna")
    assert len(await memory.messages("anna")) == 2


async def test_a_text_is_a_question_and_a_chat_model_generates() -> None:
    store, embedder = await filled()
    assert (await asking(store, embedder).ask("When does the ferry leave?")).answered
    assert (await asking(store, embedder).search("ferry")).hits
    chat = FakeChatModel("At 22:15 [1].")
    answer = await asking(store, embedder, generate=chat).ask("When does the ferry leave?")
    assert (answer.text, answer.mode) == ("At 22:15 [1].", "model")
    with pytest.raises(InvalidQuery):
        await asking(store, embedder).ask(7)  # type: ignore[arg-type]


async def test_a_retriever_that_returns_texts_is_told_what_to_return() -> None:
    async def texts(query: Query) -> list[str]:
        return ["The ferry leaves at 22:15."]

    pipeline = QueryPipeline(retrievers=[texts], augment=CitedContext(), generate=ExtractiveGenerator())  # type: ignore[list-item]
    with pytest.raises(InvalidStage, match="list of Hit"):
        await pipeline.ask("When does the ferry leave?")


async def test_a_cleaner_may_wait() -> None:
    async def shout(document: Document) -> Document:
        return replace(document, text=document.text.upper())

    store, _ = await filled(clean=[shout])
    (hit,) = await store.search_text("ferry", scope=Scope(), top_k=1)
    assert hit.chunk.text == FERRY.upper()


def test_a_pipeline_has_a_blocking_face_to_its_end() -> None:
    async def make() -> QueryPipeline:
        return asking(*await filled())

    with Blocking(make) as pipeline:
        assert pipeline.ask("When does the ferry leave?").answered
        whole = pipeline.search("ferry")
    assert whole.hits
    with Blocking(asking(MemoryStore(), FakeEmbedder())) as empty:
        assert not empty.ask("When does the ferry leave?").answered


@pytest.mark.parametrize(
    "held",
    [
        Document(text=FERRY, metadata={"owner": "anna"}).metadata,
        Query("ferry", context={"owner": "anna"}).context,
    ],
)
def test_metadata_and_context_of_a_value_cannot_be_changed(held: Any) -> None:
    changes: list[Callable[[], object]] = [
        lambda: held.__setitem__("owner", "ben"),
        lambda: held.__delitem__("owner"),
        lambda: held.update(owner="ben"),
        lambda: held.pop("owner"),
        lambda: held.clear(),
        lambda: held.setdefault("x", 1),
    ]
    for change in changes:
        with pytest.raises(TypeError, match=r"dataclasses\.replace"):
            change()
    assert held == {"owner": "anna"}
    assert held | {"owner": "ben"} == {"owner": "ben"}
    assert deepcopy(held) == pickle.loads(pickle.dumps(held)) == held
    assert json.dumps(held) == '{"owner": "anna"}'


def test_a_document_with_metadata_is_a_dict_and_a_copy() -> None:
    document = Document(text=FERRY, metadata={"owner": "anna"})
    assert asdict(document)["metadata"] == {"owner": "anna"}
    assert replace(document, metadata={**document.metadata, "owner": "ben"}).metadata == {"owner": "ben"}


@pytest.mark.parametrize("first", ["QueryPipeline", "IngestPipeline", "Assistant"])
def test_a_function_stays_one_whatever_is_imported_before_it(first: str) -> None:
    code = f"from ragstone import {first}, cite, clean; assert callable(cite) and callable(clean)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
