"""What a program says to the API and reads of it: for acceptance tests and for the soak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from services import wait_until
from wire import Event, Lines

READY_S = 60.0
PAGE = 200


class Unexpected(AssertionError):
    """An answer with another status than was expected."""

    def __init__(self, response: httpx2.Response) -> None:
        asked = f"{response.request.method} {response.request.url}"
        super().__init__(f"{asked}: {response.status_code} {response.text[:2_000]}")
        self.status = response.status_code


@dataclass(frozen=True)
class Api:
    """The routes, over a client that knows address and key."""

    client: httpx2.Client

    def call(self, method: str, path: str, body: object = None, *, status: int = 200, **options: Any) -> Any:
        """The JSON of an answer with this status (None for an empty one)."""
        response = self.client.request(method, path, json=body, **options)
        if response.status_code != status:
            raise Unexpected(response)
        return response.json() if response.content else None

    # --- bases and documents ---

    def make_base(self, name: str, **fields: Any) -> str:
        return self.call("POST", "/api/bases", {"name": name, **fields}, status=201)["base_id"]

    def upload(self, base_id: str, *files: tuple[str, bytes], **fields: str) -> list[dict[str, Any]]:
        """The items of the answer, one a file: `document`, `outcome`, `duplicate`."""
        parts = [("files", (name, content)) for name, content in files]
        path = f"/api/bases/{base_id}/documents"
        return self.call("POST", path, status=202, files=parts, data=fields)["items"]

    def documents(self, base_id: str, **query: Any) -> list[dict[str, Any]]:
        """All that the query finds, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = {"limit": PAGE, "offset": len(found), **query}
            answer = self.call("GET", f"/api/bases/{base_id}/documents", params=page)
            found += answer["items"]
            if not answer["items"] or len(found) >= answer["total"]:
                return found

    def document(self, document_id: str) -> dict[str, Any]:
        return self.call("GET", f"/api/documents/{document_id}")

    def settled(self, base_id: str, *, seconds: float = READY_S) -> dict[str, dict[str, Any]]:
        """The documents by name, once none of them waits or is being read."""

        def done() -> bool:
            return all(item["status"] in ("ready", "failed") for item in self.documents(base_id))

        wait_until(done, seconds=seconds, what=f"the documents of {base_id} are ready or failed")
        return {item["name"]: item for item in self.documents(base_id)}

    # --- asking ---

    def search(self, text: str, bases: Sequence[str] | None = None, **fields: Any) -> list[dict[str, Any]]:
        return self.call("POST", "/api/search", {"query": text, "bases": bases, **fields})["hits"]

    def ask(self, text: str, bases: Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
        return self.call("POST", "/api/ask", {"question": text, "bases": bases, **fields})

    @contextmanager
    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Iterator[Event]]:
        """The events of an answer as they come; leaving early is a client that goes away."""
        with self.client.stream("POST", path, json=body) as response:
            if response.status_code != 200:
                response.read()
                raise Unexpected(response)
            reading = Lines()
            yield (event for line in response.iter_lines() if (event := reading.feed(line)) is not None)

    def streamed(self, path: str, body: Mapping[str, Any]) -> list[Event]:
        with self.stream(path, body) as events:
            return list(events)

    # --- sessions ---

    def make_session(self, *bases: str, **fields: Any) -> str:
        made = self.call("POST", "/api/sessions", {"bases": list(bases), **fields}, status=201)
        return made["session_id"]

    def say(self, session_id: str, text: str) -> list[Event]:
        return self.streamed(f"/api/sessions/{session_id}/messages/stream", {"question": text})

    def messages(self, session_id: str) -> list[dict[str, Any]]:
        """The latest of them, oldest first."""
        return self.call("GET", f"/api/sessions/{session_id}", params={"limit": PAGE})["items"]


def text_of(events: Sequence[Event]) -> str:
    """The pieces of a streamed answer, joined."""
    return "".join(event.data["text"] for event in events if event.name == "delta")


def shown(value: object) -> str:
    """As text that a canary can be looked for in."""
    return json.dumps(value, ensure_ascii=False)
