"""Two hundred conversations at once over one chat adapter and a real HTTP server."""

from __future__ import annotations

import gc
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from provider import Fault, Provider
from ragstone import (
    Assistant,
    CitedContext,
    Document,
    Hit,
    ModelGenerator,
    Query,
    QueryPipeline,
    WindowMemory,
)
from ragstone.chat.openai import OpenAIChatModel
from ragstone.memory import PARTIAL_MARK
from ragstone.types import Chunk, Delta, Done

pytestmark = pytest.mark.anyio

AT_ONCE = 200
ROUNDS = 3
FLAT = AT_ONCE * 5
"""Objects that may be left over of a round: a lost answer, task or connection would be dozens each."""


def said(number: str) -> list[str]:
    """The deltas to question `number`: each names it."""
    return [f"The number is {number} [1]. ", *(f"{number}-{n} " for n in range(3)), "End."]


async def found(query: Query) -> list[Hit]:
    document = Document(text=f"The number is {query.text}.", uri=f"file:///{query.text}")
    chunk = Chunk(
        text=document.text, document_id=document.document_id, index=0, start=0, end=len(document.text)
    )
    return [Hit(chunk=chunk, uri=document.uri, title="Numbers")]


def assistant(chat: OpenAIChatModel) -> Assistant:
    pipeline = QueryPipeline(retrievers=[found], augment=CitedContext(), generate=ModelGenerator(chat))
    return Assistant(pipeline=pipeline, memory=WindowMemory(max_messages=4))


async def answered(talking: Assistant, number: str) -> None:
    pieces: list[str] = []
    async with aclosing(talking.stream(number, chat_id=number)) as events:
        async for event in events:
            if isinstance(event, Delta):
                pieces.append(event.text)
    assert isinstance(event, Done)
    assert "".join(pieces).strip() == event.answer.text == "".join(said(number)).strip()
    assert event.answer.citations[0].quote == f"The number is {number}."


async def started(provider: Provider, number: int) -> None:
    """A few at a time: on a busy machine 200 connections at one stroke are 200 late ones."""
    if number % 20 == 19:
        await provider.until(lambda server: server.active + server.left_early > number)


def _say(body: dict[str, Any]) -> list[str]:
    return said(body["messages"][-1]["content"].rpartition("Question: ")[2].strip())


async def test_200_streamed_answers_at_once_lose_and_cross_nothing_and_leave_nothing() -> None:
    """Memory stays flat over the rounds, and no connection or task is left (rows C40, W23)."""
    async with Provider(chat=_say) as provider:
        chat = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m")
        talking = assistant(chat)
        sizes: list[int] = []
        for _ in range(ROUNDS):
            provider.requests.clear()
            provider.fail(Fault(stall_after=2), times=AT_ONCE)
            async with anyio.create_task_group() as tasks:
                for number in range(AT_ONCE):
                    tasks.start_soon(answered, talking, str(number))
                    await started(provider, number)
                provider.release()
            assert len(provider.requests) == AT_ONCE
            gc.collect()
            sizes.append(len(gc.get_objects()))
        assert sizes[-1] - sizes[1] < FLAT, sizes
        assert provider.active == 0
        assert provider.most_active == AT_ONCE
        for number in ("0", "199"):
            spoken = [message.content for message in await talking.memory.messages(number)]
            assert spoken == [number, "".join(said(number)).strip()] * 2
        await chat.aclose()


async def test_c40_200_answers_that_are_left_close_their_connections_and_keep_what_was_said() -> None:
    async with Provider(chat=_say) as provider:
        provider.fail(Fault(stall_after=3), times=AT_ONCE)
        chat = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m")
        talking = assistant(chat)
        begun = 0
        async with anyio.create_task_group() as tasks:

            async def read(number: str) -> None:
                nonlocal begun
                async with aclosing(talking.stream(number, chat_id=number)) as events:
                    async for event in events:
                        if isinstance(event, Delta) and f"{number}-1" in event.text:
                            begun += 1
                            if begun == AT_ONCE:
                                tasks.cancel_scope.cancel()

            for number in range(AT_ONCE):
                tasks.start_soon(read, str(number))
                await started(provider, number)
        await provider.until(lambda server: server.active == 0)
        assert provider.left_early == AT_ONCE
        spoken = [message.content for message in await talking.memory.messages("7")]
        assert spoken == ["7", "".join(said("7")[:3]).strip() + PARTIAL_MARK]
        # The adapter still works.
        await answered(talking, "1000")
        await chat.aclose()
