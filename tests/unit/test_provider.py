"""The fake provider itself: each protocol once, each fault of the wire once."""

from __future__ import annotations

import threading

import anyio
import pytest

from provider import WAIT, Fault, Provider, threaded
from ragstone.chat.openai import OpenAIChatModel
from ragstone.embed.openai import OpenAIEmbedder
from ragstone.errors import ProviderError, ProviderUnavailable
from ragstone.types import Message

pytestmark = pytest.mark.anyio
ASK = (Message(role="user", content="Hello?"),)


async def said(provider: Provider, **options: object) -> str:
    model = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m", max_retries=0, timeout=WAIT)
    try:
        with anyio.fail_after(WAIT):
            return "".join([delta.text async for delta in model.stream(ASK)])
    finally:
        await model.aclose()


@pytest.mark.parametrize("fault", [Fault(), Fault(drip=True)])
async def test_chat_streams_whole_and_byte_by_byte(fault: Fault) -> None:
    async with Provider(chat=lambda body: ["一", " two\n", "3"]) as provider:
        provider.fail(fault)
        assert await said(provider) == "一 two\n3"
        assert provider.bodies("/chat/completions")[0]["messages"][0]["content"] == "Hello?"


@pytest.mark.parametrize(
    "fault",
    [Fault(status=429), Fault(status=500), Fault(cut_after=30), Fault(error_after=1), Fault(garbage=True)],
)
async def test_chat_faults_reach_the_adapter(fault: Fault) -> None:
    async with Provider(chat=lambda body: ["one", "two"]) as provider:
        provider.fail(fault)
        with pytest.raises(ProviderUnavailable):
            await said(provider)
        assert await said(provider) == "onetwo"


async def test_a_client_that_leaves_a_held_stream_is_seen() -> None:
    async with Provider() as provider:
        for fault in (Fault(hold=True), Fault(stall_after=0)):
            provider.fail(fault)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(said, provider)
                await provider.until(lambda provider: provider.active == 1)
                tasks.cancel_scope.cancel()
            await provider.until(lambda provider: provider.active == 0)
        assert provider.left_early == 2


async def test_embeddings_in_order_and_with_faults() -> None:
    async with Provider() as provider:
        embedder = await OpenAIEmbedder.open(base_url=f"{provider.url}/v1", model="m")
        assert embedder.dimension == 8
        straight = (await embedder.embed_documents(["a", "b"])).values
        provider.fail(Fault(reverse=True))
        assert (await embedder.embed_documents(["a", "b"])).values.tolist() == straight.tolist()
        for fault in (Fault(missing=1), Fault(dimension=4), Fault(shift=99)):
            provider.fail(fault)
            with pytest.raises(ProviderError):
                await embedder.embed_documents(["a", "b"])
        await embedder.aclose()


def test_a_provider_of_its_own_thread_ends_with_it() -> None:
    before = set(threading.enumerate())
    with threaded(chat=lambda body: "hi") as provider:
        own = {thread for thread in threading.enumerate() if thread.name == "provider"} - before
        assert len(own) == 1
        assert anyio.run(said, provider) == "hi"
    assert not own & set(threading.enumerate())
