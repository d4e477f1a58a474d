"""Conversations and steps down through the knowledge bases: a real database, a provider over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from provider import Fault, Provider
from ragstone.errors import InvalidQuery, InvalidSetting
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load
from ragstone.testing.databases import temporary_database
from ragstone.types import Delta, Done, Failed, Message, Sources

pytestmark = pytest.mark.anyio

FERRY = "The ferry leaves Halm at 22:15. Dogs travel free of charge."
HISTORY = (
    Message(role="user", content="When does the ferry leave Halm?"),
    Message(role="assistant", content="At 22:15 [1]."),
)


@pytest.fixture
def database(embedded_database: str) -> Iterator[str]:
    """A database of the test's own: questions search every base, also those of other tests and models."""
    with temporary_database(embedded_database) as conninfo:
        yield conninfo


@asynccontextmanager
async def opened(database: str, home: Path, **settings: object) -> AsyncGenerator[KnowledgeBases, None]:
    """Knowledge bases with the base `ferry`, which holds one document."""
    given = {"home": home, "database_url": database, **settings}
    if "embed_base_url" not in settings:
        given["test_embedder"] = "fake"
    loaded = await anyio.to_thread.run_sync(lambda: load({}, overrides=given))
    bases = await KnowledgeBases.open(loaded)
    await anyio.Path(home / "ferry.txt").write_text(FERRY)
    try:
        await bases.add(home / "ferry.txt", base=f"ferry-{home.name}")
        yield bases
    finally:
        await bases.aclose()


def chat(provider: Provider) -> dict[str, Any]:
    return {"chat_base_url": f"{provider.url}/v1", "chat_model": "m", "chat_api_key": "k"}


async def test_c34_w12_a_follow_up_is_made_whole_by_the_model_and_searched_as_asked_too(
    database: str, tmp_path: Path
) -> None:
    def say(body: dict[str, Any]) -> str:
        compressing = "Conversation:" in body["messages"][-1]["content"]
        return "Do dogs travel free on the ferry from Halm?" if compressing else "Yes, free of charge [1]."

    async with Provider(chat=say) as provider, opened(database, tmp_path, **chat(provider)) as kb:
        answer = await kb.ask("And the dogs?", history=HISTORY)
        reworded, kept, retrieve = (step.detail for step in answer.trace[:3])
        assert (reworded["query"], kept) == ("Do dogs travel free on the ferry from Halm?", {})
        assert len(retrieve["hits"]) == 2  # type: ignore[arg-type]
        first = await kb.ask("When does the ferry leave Halm?")
        assert not any("query" in step.detail for step in first.trace)
    prompt = provider.requests[1].body["messages"]
    assert [message["content"] for message in prompt[1:3]] == [message.content for message in HISTORY]
    assert len(provider.requests) == 3


async def test_c34_without_a_model_the_question_before_helps_to_find(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path) as kb:
        answer = await kb.ask("And the dogs?", history=HISTORY)
    transform, retrieve = (
        next(step.detail for step in answer.trace if step.stage == stage)
        for stage in ("transform", "retrieve")
    )
    assert transform["query"] == "When does the ferry leave Halm?\nAnd the dogs?"
    assert len(retrieve["hits"]) == 2  # type: ignore[arg-type]
    assert answer.mode == "extractive"


async def test_c37_of_a_long_history_only_the_latest_turns_are_sent(database: str, tmp_path: Path) -> None:
    history = [
        Message(role=role, content=f"{role} {n}")  # type: ignore[arg-type]
        for n in range(40)
        for role in ("user", "assistant")
    ]
    async with (
        Provider(chat=lambda body: "At 22:15 [1].") as provider,
        opened(database, tmp_path, **chat(provider)) as kb,
    ):
        await kb.ask("When does the ferry leave?", history=history)
    spoken = [message["content"] for message in provider.requests[-1].body["messages"][1:-1]]
    assert spoken == [message.content for message in history[-10:]]


async def test_d9_every_step_down_answers_and_is_marked(database: str, tmp_path: Path) -> None:
    async with Provider(chat=lambda body: "At 22:15 [1].") as provider:
        settings = chat(provider) | {
            "embed_base_url": f"{provider.url}/v1",
            "embed_model": "e",
            "rerank_kind": "tei",
            "rerank_base_url": provider.url,
            "rerank_min_score": -1.0,
        }
        async with opened(database, tmp_path, **settings) as kb:
            question = "When does the ferry leave Halm?"
            assert (await kb.ask(question)).degraded == ()
            for path, mark, mode in (
                ("/chat/completions", "chat_failed", "extractive"),
                ("/rerank", "reranker_failed", "model"),
                ("/embeddings", "embedder_failed", "model"),
            ):
                provider.fail(Fault(status=400), path=path)
                answer = await kb.ask(question)
                assert (answer.degraded, answer.mode, answer.answered) == ((mark,), mode, True)
                assert answer.citations[0].quote in FERRY
            for path in ("/chat/completions", "/rerank", "/embeddings"):
                provider.fail(Fault(status=400), path=path, times=99)
            answer = await kb.ask(question)
            assert set(answer.degraded) == {"chat_failed", "reranker_failed", "embedder_failed"}
            assert answer.answered
            assert "22:15" in answer.text


async def test_a75_events_for_a_user_interface_have_a_typed_end(database: str, tmp_path: Path) -> None:
    pieces = ["At 22:15 [1]. ", "Dogs ", "travel free [1]."]
    async with (
        Provider(chat=lambda body: pieces) as provider,
        opened(database, tmp_path, **chat(provider)) as kb,
    ):
        events = [event async for event in kb.events("When does the ferry leave?")]
        assert isinstance(events[-1], Done)
        assert any(isinstance(event, Sources) for event in events)
        provider.fail(Fault(error_after=1), path="/chat/completions")
        events = [event async for event in kb.events("When does the ferry leave?")]
        assert isinstance(events[-1], Failed)
        assert events[-1].error.code == "chat.busy"
        assert events[-1].text == "".join(event.text for event in events if isinstance(event, Delta))
        (failed,) = [event async for event in kb.events(" ")]
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, InvalidQuery)


async def test_d9_a_model_file_that_is_not_there_is_marked_and_the_answer_quoted(
    database: str, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp")
    missing = str(tmp_path / "model.gguf")
    async with opened(database, tmp_path, chat_model_file=missing) as kb:
        answer = await kb.ask("When does the ferry leave Halm?")
    assert (answer.mode, answer.degraded) == ("extractive", ("chat_failed",))


def test_one_chat_model_at_a_time(tmp_path: Path) -> None:
    both = {"chat_model_file": "m.gguf", "chat_base_url": "http://localhost/v1", "chat_model": "m"}
    with pytest.raises(InvalidSetting, match="chat_model_file"):
        load({}, overrides={"home": tmp_path, **both})
