"""Wrappers around any adapter or stage: retry, limits, time budgets."""

from __future__ import annotations

import anyio
import pytest

from provider import WAIT, Fault, Provider
from ragstone.chat.openai import OpenAIChatModel
from ragstone.errors import InvalidStage, ProviderRejected, ProviderTimeout, ProviderUnavailable
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Delta, Hit, Message, Query
from ragstone.wrap import Limit, Retry, around, budgeted, giving_up, limited, retrying

pytestmark = pytest.mark.anyio
ASK = (Message(role="user", content="Hello?"),)


def busy(**more: object) -> ProviderUnavailable:
    return ProviderUnavailable("chat.connection", url="x", **more)


class Waits:
    """Instead of sleeping, the seconds are kept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def quick(waits: Waits, **options: object) -> Retry:
    return Retry(sleep=waits, draw=lambda low, high: high, **options)  # type: ignore[arg-type]


async def test_transient_failures_are_tried_again_with_back_off() -> None:
    waits, chat = Waits(), FakeChatModel(busy(), busy(), busy(), "Hi")
    said = await around(chat, quick(waits, attempts=4)).complete(ASK)
    assert (said.text, waits.seconds) == ("Hi", [0.5, 1.0, 2.0])


async def test_the_provider_s_own_wish_is_followed_unless_it_is_too_long() -> None:
    waits, chat = Waits(), FakeChatModel(busy(retry_after=7.0), "Hi")
    assert (await around(chat, quick(waits)).complete(ASK)).text == "Hi"
    assert waits.seconds == [7.0]
    with pytest.raises(ProviderUnavailable):
        await around(FakeChatModel(busy(retry_after=60.0), "Hi"), quick(waits)).complete(ASK)
    assert waits.seconds == [7.0]


async def test_other_failures_and_the_last_one_come_through() -> None:
    waits = Waits()
    chat = FakeChatModel(ProviderRejected("chat.filtered", model="m"), "Hi")
    with pytest.raises(ProviderRejected):
        await around(chat, quick(waits)).complete(ASK)
    always = FakeChatModel(busy())
    with pytest.raises(ProviderUnavailable):
        await around(always, quick(waits, attempts=2)).complete(ASK)
    assert (len(always.requests), waits.seconds) == (2, [0.5])


async def test_a_stream_is_begun_again_only_before_its_first_item() -> None:
    waits = Waits()
    chat = FakeChatModel([busy()], ["Hel", "lo"])
    said = [delta.text async for delta in around(chat, quick(waits)).stream(ASK)]
    assert "".join(said) == "Hello"
    broken = FakeChatModel(["Hel", busy()], ["Hello"])
    with pytest.raises(ProviderUnavailable):
        _ = [delta async for delta in around(broken, quick(waits)).stream(ASK)]
    assert len(broken.requests) == 1


async def test_a_wrapped_adapter_keeps_its_shape_and_closes_what_it_wraps() -> None:
    embedder = FakeEmbedder()
    wrapped = retrying(limited(budgeted(embedder, seconds=WAIT), concurrent=2))
    assert (wrapped.identity, wrapped.dimension) == (embedder.identity, embedder.dimension)
    assert wrapped.tokenizer.count("one two") == 2
    assert len(await wrapped.embed_documents(["a", "b"])) == 2
    await wrapped.aclose()
    assert embedder.closed


async def test_stages_are_wrapped_too() -> None:
    calls = 0

    async def find(query: Query) -> list[Hit]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise busy()
        return []

    assert await around(find, quick(Waits()))(Query("a")) == []
    assert calls == 2


async def test_a_stream_that_is_left_is_closed_through_every_wrapper() -> None:
    chat = FakeChatModel(["a", "b", "c"])
    stream = budgeted(limited(retrying(chat), concurrent=1), seconds=WAIT).stream(ASK)
    assert (await anext(stream)).text == "a"
    await stream.aclose()  # type: ignore[attr-defined]
    assert chat.closed_early == 1


async def test_the_limit_holds_for_calls_and_streams_and_none_is_lost() -> None:
    async with Provider(chat=lambda body: body["messages"][0]["content"]) as provider:
        inner = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m", timeout=WAIT)
        chat = limited(inner, concurrent=3)
        said: dict[int, str] = {}

        async def ask(number: int) -> None:
            asked = (Message(role="user", content=f"number {number}"),)
            if number % 2:
                said[number] = (await chat.complete(asked)).text
            else:
                said[number] = "".join([delta.text async for delta in chat.stream(asked)])

        with anyio.fail_after(3 * WAIT):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(ask, number)
        assert said == {number: f"number {number}" for number in range(20)}
        assert provider.most_active <= 3
        await chat.aclose()


async def test_calls_are_spread_over_time() -> None:
    async def find(query: Query) -> list[Hit]:
        return []

    waits = Waits()
    spread = around(find, Limit(concurrent=10, per_second=0.01, sleep=waits))
    for _ in range(4):
        await spread(Query("a"))
    assert [round(seconds, -1) for seconds in waits.seconds] == [100, 200, 300]


async def test_what_is_late_is_cancelled_whole_or_in_the_middle() -> None:
    async with Provider(chat=lambda body: ["a", "b"]) as provider:
        inner = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m", timeout=WAIT)
        await inner.complete(ASK)  # the connection stands, the SDK is imported
        chat = budgeted(inner, seconds=0.2)
        provider.fail(Fault(hold=True))
        with pytest.raises(ProviderUnavailable, match=r"0\.2"):
            await chat.complete(ASK)
        provider.fail(Fault(stall_after=1))
        got: list[Delta] = []

        async def read() -> None:
            async for delta in chat.stream(ASK):
                got.append(delta)

        with anyio.fail_after(WAIT), pytest.raises(ProviderUnavailable, match=r"0\.2"):
            await read()
        assert [delta.text for delta in got] == ["a"]
        await provider.until(lambda provider: provider.active == 0)
        await chat.aclose()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda: retrying(FakeEmbedder(), attempts=0),
        lambda: retrying(FakeEmbedder(), first_wait=-1),
        lambda: limited(FakeEmbedder(), concurrent=0),
        lambda: limited(FakeEmbedder(), concurrent=1, per_second=0),
        lambda: budgeted(FakeEmbedder(), seconds=0),
    ],
)
def test_parameters_that_cannot_work_are_refused(wrap: object) -> None:
    with pytest.raises(InvalidStage):
        wrap()  # type: ignore[operator]


async def test_who_gives_up_is_not_asked_again() -> None:
    """The calls of one answer wait for a provider that is down once."""
    model = FakeChatModel(ProviderTimeout("chat.timeout", url="x", seconds=1.0), "Hi", "Hi")
    chat = giving_up(model)
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            await chat.complete(ASK)
    with pytest.raises(ProviderUnavailable):
        _ = [delta async for delta in chat.stream(ASK)]
    assert len(model.requests) == 1
    assert (await giving_up(model).complete(ASK)).text == "Hi"
