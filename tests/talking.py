"""A served Ragstone with a chat provider behind it, for tests that ask over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psycopg

from provider import WAIT, Provider
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load
from serving import serving
from working import until

FERRY = "The ferry leaves Halm at 22:15. Dogs travel free of charge."
LAKE = "Lake Oster is 31 metres deep. Its water is cold in June."


@dataclass(frozen=True)
class Event:
    name: str
    data: dict[str, Any]
    event_id: str


@dataclass(kw_only=True)
class Talk:
    """The server's address, its provider, its database, and the ids of its bases by name."""

    client: httpx2.AsyncClient
    provider: Provider
    database: str
    home: Path
    bases: dict[str, str] = field(default_factory=dict[str, str])

    async def session(self, **body: Any) -> str:
        response = await self.client.post("/api/sessions", json=body)
        assert response.status_code == 201, response.text
        return response.json()["session_id"]

    async def message(self, session_id: str, message_id: str) -> dict[str, Any]:
        response = await self.client.get(f"/api/sessions/{session_id}/messages/{message_id}")
        assert response.status_code == 200, response.text
        return response.json()

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        response = await self.client.get(f"/api/sessions/{session_id}", params={"limit": 200})
        assert response.status_code == 200, response.text
        return response.json()["items"]

    async def say(self, session_id: str, question: str) -> dict[str, Any]:
        response = await self.client.post(f"/api/sessions/{session_id}/messages", json={"question": question})
        assert response.status_code == 200, response.text
        return response.json()

    async def until(self, session_id: str, message_id: str, status: str) -> dict[str, Any]:
        """The message once it has this status."""

        async def reached() -> bool:
            return (await self.message(session_id, message_id))["status"] == status

        await until(reached, seconds=3 * WAIT)
        return await self.message(session_id, message_id)

    def sql(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def stream(self, path: str, **body: Any) -> AsyncIterator[AsyncIterator[Event]]:
        async with self.client.stream("POST", path, json=body) as response:
            assert response.status_code == 200, await response.aread()
            yield events(response)

    async def streamed(self, path: str, **body: Any) -> list[Event]:
        async with self.stream(path, **body) as stream:
            return [event async for event in stream]


async def events(response: httpx2.Response) -> AsyncIterator[Event]:
    """What a browser's EventSource would see of the stream, ids included."""
    said: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if "data" in said:
                yield Event(said["event"], json.loads(said["data"]), said["id"])
            said = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            said[name] = value


def joined(found: list[Event]) -> str:
    return "".join(event.data["text"] for event in found if event.name == "delta")


def named(found: list[Event], name: str) -> list[dict[str, Any]]:
    return [event.data for event in found if event.name == name]


async def filled(home: Path, database: str, **texts: str) -> dict[str, str]:
    """Bases with one document each, and their ids by name."""
    given = {"home": home, "database_url": database, "test_embedder": "fake"}
    loaded = await anyio.to_thread.run_sync(lambda: load({}, overrides=given))
    bases = await KnowledgeBases.open(loaded)
    try:
        for name, text in texts.items():
            await anyio.Path(home / f"{name}.txt").write_text(text)
            await bases.add(home / f"{name}.txt", base=name)
        return {info.name: info.base_id for info in await bases.bases()}
    finally:
        await bases.aclose()


@asynccontextmanager
async def talking(home: Path, database: str, **settings: str) -> AsyncIterator[Talk]:
    """A server over the bases `ferry` and `lake`, which answers through a provider of its own."""
    async with Provider() as provider:
        bases = await filled(home, database, ferry=FERRY, lake=LAKE)
        chat = {"chat_base_url": f"{provider.url}/v1", "chat_model": "m", "chat_api_key": "k"}
        given = {"database_url": database, **chat, **settings}
        with serving(home, **given) as address:
            async with httpx2.AsyncClient(base_url=address, timeout=WAIT) as client:
                yield Talk(client=client, provider=provider, database=database, home=home, bases=bases)
