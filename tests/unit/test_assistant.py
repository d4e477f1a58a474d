"""Conversations: what the pipeline is told, what is remembered, how streams end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from ragstone import (
    Assistant,
    CitedContext,
    Compress,
    Document,
    MemoryStore,
    ModelGenerator,
    Query,
    QueryPipeline,
    RecursiveSplitter,
    Rerank,
    Scope,
    StoreRetriever,
    WindowMemory,
)
from ragstone.assistant import CHAT_ID
from ragstone.errors import InvalidQuery, ProviderUnavailable
from ragstone.filters import parse
from ragstone.memory import PARTIAL_MARK
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Delta, Done, Event, Failed, Message, Sources, StageDone

pytestmark = pytest.mark.anyio

FACTS = ("The ferry leaves Halm at 22:15.", "Dogs travel free of charge.", "A bicycle costs 9 euros.")
DOWN = ProviderUnavailable("chat.connection", url="http://localhost")


class FirstIsBest:
    identity = "first"

    async def score(self, query: str, texts: list[str]) -> list[float]:
        return [1.0 - 0.5 * index for index in range(len(texts))]

    async def aclose(self) -> None: ...


@pytest.fixture
async def retriever() -> StoreRetriever:
    store, embedder = MemoryStore(), FakeEmbedder()
    split = RecursiveSplitter(max_size=40, overlap=0, tokenizer=embedder.tokenizer)
    for number, text in enumerate(FACTS):
        document = Document(text=text, uri=f"file:///{number}", title="Ferry", metadata={"n": number})
        chunks = split(document)
        vectors = await embedder.embed_documents([chunk.embedding_text for chunk in chunks])
        await store.replace(document, chunks, vectors)
    return StoreRetriever(store=store, embedder=embedder)


def assistant(retriever: StoreRetriever, chat: FakeChatModel, **more: object) -> Assistant:
    memory = more.pop("memory", None) or WindowMemory()
    pipeline = QueryPipeline(
        **{"retrievers": [retriever], "augment": CitedContext(), "generate": ModelGenerator(chat)} | more  # type: ignore[arg-type]
    )
    return Assistant(pipeline=pipeline, memory=memory)  # type: ignore[arg-type]


async def contents(talking: Assistant, chat_id: str = "c") -> list[str]:
    return [message.content for message in await talking.memory.messages(chat_id)]


async def test_a73_a71_the_next_question_knows_what_was_said_for_call_and_stream(
    retriever: StoreRetriever,
) -> None:
    chat = FakeChatModel("At 22:15 [1].", "Free of charge [1].", "No idea [1].")
    talking = assistant(retriever, chat)
    await talking.ask("When does the ferry leave?", chat_id="c")
    async with aclosing(talking.stream("And the dogs?", chat_id="c")) as events:
        assert isinstance([event async for event in events][-1], Done)
    await talking.ask("And cats?", chat_id="c")
    spoken = [message.content for message in chat.requests[-1] if message.role != "system"]
    assert spoken[:4] == [
        "When does the ferry leave?",
        "At 22:15 [1].",
        "And the dogs?",
        "Free of charge [1].",
    ]
    assert "And cats?" in spoken[4]
    assert sum("And cats?" in text for text in spoken) == 1


async def test_a08_a_stage_knows_the_question_the_chat_and_what_was_said(retriever: StoreRetriever) -> None:
    seen: list[Query] = []

    async def looking(query: Query) -> Query:
        seen.append(query)
        return query

    def allowed(query: Query) -> Scope:
        return Scope(filter=parse(f"n == {query.context['owner']}"))

    narrowed = StoreRetriever(store=retriever.store, embedder=retriever.embedder, scope=allowed)
    talking = assistant(narrowed, FakeChatModel("Yes [1]."), transform=[looking])
    await talking.ask("First?", chat_id="anna", context={"owner": 0})
    answer = await talking.ask("Second?", chat_id="anna", context={"owner": 1})
    assert (seen[1].text, seen[1].context[CHAT_ID]) == ("Second?", "anna")
    assert seen[1].history == (
        Message(role="user", content="First?"),
        Message(role="assistant", content="Yes [1]."),
    )
    assert [hit.chunk.text for hit in answer.retrieved] == [FACTS[1]]


async def test_conversations_are_isolated_also_when_they_run_at_once(retriever: StoreRetriever) -> None:
    talking = assistant(retriever, FakeChatModel("Yes [1]."))

    async def ask(name: str) -> None:
        for number in range(3):
            await talking.ask(f"{name} {number}?", chat_id=name)

    async with anyio.create_task_group() as tasks:
        for name in ("anna", "ben", "cleo"):
            tasks.start_soon(ask, name)
    for name in ("anna", "ben", "cleo"):
        assert (await contents(talking, name))[::2] == [f"{name} {number}?" for number in range(3)]


async def test_a67_a75_w24_an_answer_has_sources_before_and_after_reranking_usage_and_trace(
    retriever: StoreRetriever,
) -> None:
    answer = await assistant(
        retriever, FakeChatModel("At 22:15 [1]."), rerank=Rerank(FirstIsBest(), top_n=1)
    ).ask("When does the ferry leave Halm?")
    assert len(answer.hits) == 1 < len(answer.retrieved) == 3
    assert [hit.on("rerank:first") for hit in answer.hits] == [1.0]
    assert all(hit.on("rerank:first") is None for hit in answer.retrieved)
    assert answer.citations[0].quote == FACTS[0]
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert {"retrieve", "rerank", "augment", "generate", "cite"} <= {step.stage for step in answer.trace}


async def test_w23_w16_the_events_are_typed_and_the_first_comes_before_the_model_is_asked(
    retriever: StoreRetriever,
) -> None:
    chat = FakeChatModel(["At ", "22:15\nsharp \\n", " [1]."])
    async with aclosing(assistant(retriever, chat).stream("When does the ferry leave?")) as events:
        first = await anext(events)
        assert isinstance(first, StageDone)
        assert chat.requests == []
        rest = [event async for event in events]
    kinds = [type(event) for event in rest]
    assert kinds.index(Sources) < kinds.index(Delta) < kinds.index(Done) == len(kinds) - 1
    assert "".join(event.text for event in rest if isinstance(event, Delta)) == "At 22:15\nsharp \\n [1]."


async def test_a80_a_failure_is_the_last_event_of_a_stream_and_raised_by_a_call(
    retriever: StoreRetriever,
) -> None:
    talking = assistant(retriever, FakeChatModel(["It leaves at 22:15 [1]. ", DOWN]))
    async with aclosing(talking.stream("When does the ferry leave?", chat_id="s")) as stream:
        last = [event async for event in stream][-1]
    assert last == Failed(error=DOWN, text="It leaves at 22:15 [1].")
    with pytest.raises(ProviderUnavailable):
        await talking.ask("When does the ferry leave?", chat_id="c")
    # What had been said is kept and marked, in both.
    for chat_id in "sc":
        assert (await contents(talking, chat_id))[1] == "It leaves at 22:15 [1]." + PARTIAL_MARK


async def test_a_question_to_which_nothing_was_said_is_not_remembered(retriever: StoreRetriever) -> None:
    talking = assistant(retriever, FakeChatModel(DOWN, "At 22:15 [1]."))
    with pytest.raises(ProviderUnavailable):
        await talking.ask("When does the ferry leave?", chat_id="c")
    assert await contents(talking) == []
    await talking.ask("When does the ferry leave?", chat_id="c")
    assert len(await contents(talking)) == 2


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_c40_an_answer_that_is_left_keeps_what_was_said(retriever: StoreRetriever, way: str) -> None:
    chat = FakeChatModel(["It leaves at 22:15 [1]. ", "Dogs ", "travel free [2]."])
    talking = assistant(retriever, chat)

    async def read(scope: anyio.CancelScope) -> None:
        async with aclosing(talking.stream("When does the ferry leave?", chat_id="c")) as events:
            async for event in events:
                if isinstance(event, Delta):
                    if way == "close":
                        return
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        await read(scope)
    assert chat.closed_early == 1
    assert await contents(talking) == ["When does the ferry leave?", "It leaves at 22:15 [1]." + PARTIAL_MARK]


async def test_a35_w27_w12_a_follow_up_is_made_whole_and_a_first_question_costs_no_call(
    retriever: StoreRetriever,
) -> None:
    rewriting = FakeChatModel("What does a bicycle cost on the ferry?")
    talking = assistant(retriever, FakeChatModel("9 euros [1]."), transform=[Compress(rewriting)])
    await talking.ask("When does the ferry leave?", chat_id="c")
    assert rewriting.requests == []
    answer = await talking.ask("And a bicycle?", chat_id="c")
    assert len(rewriting.requests) == 1
    asked = rewriting.requests[0][-1].content
    assert "user: When does the ferry leave?" in asked
    assert asked.count("And a bicycle?") == 1
    assert answer.hits[0].chunk.text == FACTS[2]


async def test_a72_the_pipeline_is_whatever_streams_an_answer() -> None:
    class Echo:
        async def stream(self, query: Query) -> AsyncGenerator[Event, None]:
            from ragstone import Answer

            yield Delta(text=query.text)
            yield Done(answer=Answer(text=query.text, mode="model", answered=True))

    assert (await Assistant(pipeline=Echo()).ask("Hello?")).text == "Hello?"


async def test_a_blank_question_is_raised_before_any_event(retriever: StoreRetriever) -> None:
    talking = assistant(retriever, FakeChatModel("x"))
    async with aclosing(talking.stream(" ")) as events:
        with pytest.raises(InvalidQuery):
            await anext(events)
