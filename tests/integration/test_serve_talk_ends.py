"""Servers that end, or whose provider is away, in the middle of an answer."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from provider import WAIT, Fault, Provider
from ragstone.testing.databases import temporary_database
from services import free_port
from serving import address_of, process
from talking import FERRY, Talk, filled, joined
from working import until

pytestmark = pytest.mark.anyio

LONG = ["The ferry is white [1]. ", "It is old [1]. ", "It leaves at 22:15 [1]. ", "And so on [1]."]


@pytest.fixture
def database(embedded_database: str) -> Iterator[str]:
    with temporary_database(embedded_database) as conninfo:
        yield conninfo


def asking(provider: Provider) -> dict[str, str]:
    return {"chat_base_url": f"{provider.url}/v1", "chat_model": "m", "chat_api_key": "k"}


@asynccontextmanager
async def server(
    home: Path, database: str, **settings: str
) -> AsyncIterator[tuple[Talk, subprocess.Popen[str]]]:
    """The talk, and the process that serves it."""
    with process("serve", "--port", "0", home=home, database_url=database, **settings) as running:
        address = await anyio.to_thread.run_sync(address_of, running)
        async with httpx2.AsyncClient(base_url=address, timeout=3 * WAIT) as client:
            yield Talk(client=client, provider=Provider(), database=database, home=home), running


async def said(talk: Talk, session: str, text: str) -> dict[str, object]:
    """The answer once so much of it is saved."""

    async def saved() -> bool:
        return any(text in message["content"] for message in await talk.messages(session))

    await until(saved)
    return (await talk.messages(session))[1]


async def test_w17_a96_an_answer_that_was_being_written_when_serve_was_killed_is_partial_after_a_restart(
    database: str, tmp_path: Path
) -> None:
    bases = await filled(tmp_path, database, ferry=FERRY)
    async with Provider(chat=lambda body: list(LONG)) as provider:
        provider.fail(Fault(stall_after=3))
        async with server(tmp_path, database, **asking(provider)) as (talk, running):
            session = await talk.session(bases=[bases["ferry"]])
            async with talk.stream(f"/api/sessions/{session}/messages/stream", question="When?") as stream:
                await anext(stream)
                answer = await said(talk, session, "It is old")
                running.kill()
                with pytest.raises(httpx2.TransportError):
                    async for _ in stream:
                        pass
        await provider.until(lambda provider: provider.left_early == 1)
        async with server(tmp_path, database, **asking(provider)) as (talk, _):
            message = await talk.until(session, str(answer["message_id"]), "partial")
            assert message["content"].startswith("The ferry is white [1]. It is old")
            assert message["error_code"] == "session.interrupted"
            assert message["sources"][0]["text"] == FERRY
            await talk.say(session, "And now?")


async def test_w17_c40_a_server_that_is_stopped_ends_its_answers_first(database: str, tmp_path: Path) -> None:
    bases = await filled(tmp_path, database, ferry=FERRY)
    async with Provider(chat=lambda body: list(LONG)) as provider:
        provider.fail(Fault(stall_after=3))
        async with server(tmp_path, database, **asking(provider)) as (talk, running):
            session = await talk.session(bases=[bases["ferry"]])
            async with talk.stream(f"/api/sessions/{session}/messages/stream", question="When?") as stream:
                found = [await anext(stream)]
                while found[-1].name != "delta":
                    found.append(await anext(stream))
                running.terminate()
                found += [event async for event in stream]
            with anyio.fail_after(WAIT):
                await anyio.to_thread.run_sync(running.wait)
            assert (found[-1].name, found[-1].data["code"]) == ("error", "session.stopping")
            ((content, status),) = talk.sql("SELECT content, status FROM messages WHERE role = 'assistant'")
        await provider.until(lambda provider: provider.left_early == 1)
    assert status == "partial"
    assert content == joined(found)


async def test_d9_without_a_chat_model_answers_are_quotes_and_say_so(database: str, tmp_path: Path) -> None:
    bases = await filled(tmp_path, database, ferry=FERRY)
    async with server(tmp_path, database) as (talk, _):
        session = await talk.session(bases=[bases["ferry"]])
        found = await talk.streamed(
            f"/api/sessions/{session}/messages/stream", question="When does the ferry leave Halm?"
        )
        done = found[-1].data
        assert (done["mode"], done["degraded"], done["status"]) == ("extractive", [], "complete")
        assert "22:15" in done["answer"] == joined(found)


async def test_a_provider_that_is_away_is_a_step_down_that_is_stored(database: str, tmp_path: Path) -> None:
    bases = await filled(tmp_path, database, ferry=FERRY)
    chat = {"chat_base_url": f"http://127.0.0.1:{free_port()}/v1", "chat_model": "m"}
    async with server(tmp_path, database, **chat) as (talk, _):
        session = await talk.session(bases=[bases["ferry"]])
        reply = await talk.say(session, "When does the ferry leave?")
        message = await talk.message(session, reply["message_id"])
    assert (message["mode"], message["degraded"]) == ("extractive", ["chat_failed"])
    assert "22:15" in message["content"]
