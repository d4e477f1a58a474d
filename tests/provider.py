"""A provider of models that is a real HTTP server on the loopback, with faults on demand.

It speaks the chat and embeddings protocols of OpenAI (`/v1/chat/completions`,
`/v1/embeddings`) and reranking in the shapes of Cohere and Jina (`/v1/rerank`,
`/v2/rerank`), DashScope (`/api/v1/services/rerank/text-rerank/text-rerank`) and TEI
(`/rerank`).

    async with Provider() as provider:
        provider.fail(Fault(status=429, retry_after="0"))
        ... provider.url + "/v1" ...

Inside a test without an event loop, `with threaded() as provider`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

WAIT = 10.0
"""Seconds after which a wait of the tests gives up."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with one answer."""

    status: int = 200
    message: str = "broken on purpose"
    retry_after: str | None = None
    hold: bool = False
    """No first byte before `provider.release()`."""
    stall_after: int | None = None
    """A stream stops after so many deltas, until `provider.release()`."""
    cut_after: int | None = None
    """The connection is cut after so many bytes of the body."""
    error_after: int | None = None
    """A stream says an error after so many deltas, with HTTP 200."""
    drip: bool = False
    """One byte at a time."""
    pause: float = 0.0
    """Seconds between the bytes of a drip, so that no single read is late but the whole is."""
    reverse: bool = False
    """Items in the wrong order."""
    missing: int = 0
    """So many items fewer than were asked for."""
    shift: int = 0
    """Added to the index of every item."""
    no_index: bool = False
    dimension: int | None = None
    score: object = None
    """In place of every score of a reranking."""
    garbage: bool = False
    """Not JSON."""
    deep: bool = False
    """Brackets inside one another, more than can be read."""


@dataclass(frozen=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(kw_only=True)
class _Planned:
    fault: Fault
    path: str
    times: int


class _Gone(Exception):
    """The client has left."""


@dataclass
class Provider:
    """The server. `chat` says what the model answers: a text, or the deltas of a stream."""

    chat: Callable[[dict[str, Any]], str | Sequence[str]] = lambda body: "ok"
    dimension: int = 8
    delay: float = 0.0
    """Seconds before the first delta of every chat answer."""
    pace: float = 0.0
    """Seconds between its deltas."""
    requests: list[Request] = field(default_factory=list[Request])
    active: int = 0
    """Requests being answered now."""
    most_active: int = 0
    left_early: int = 0
    """Clients that went away before their answer was whole."""

    def __post_init__(self) -> None:
        self._planned: deque[_Planned] = deque()
        self._released = asyncio.Event()
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._released.set()
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def fail(self, fault: Fault, *, path: str = "", times: int = 1) -> None:
        """The next `times` requests whose path ends with `path` get this fault."""
        self._planned.append(_Planned(fault=fault, path=path, times=times))

    def release(self) -> None:
        """What is held goes on, also what was begun and is held later; later requests are held again."""
        self._released.set()
        self._released = asyncio.Event()

    def bodies(self, path: str = "") -> list[dict[str, Any]]:
        return [request.body for request in self.requests if request.path.endswith(path)]

    async def until(self, met: Callable[[Provider], bool]) -> None:
        """Wait until `met(provider)`; `TimeoutError` after `WAIT` seconds."""
        async with asyncio.timeout(WAIT):
            while not met(self):
                self._changed.clear()
                await self._changed.wait()

    # --- HTTP ------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            pending = b""
            while (request := await _read(reader, pending)) is not None:
                pending = await self._serve(request, reader, writer)
        except (_Gone, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Answer one request; the first bytes of the next one, if they have come already."""
        self.requests.append(request)
        self._count(+1)
        released = self._released
        watch = asyncio.ensure_future(reader.read(1))
        answer = asyncio.ensure_future(
            self._answer(request, self._next_fault(request.path), writer, released)
        )
        try:
            await asyncio.wait({watch, answer}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not answer.done() and (watch.exception() or not watch.result()):
                answer.cancel()
                self.left_early += 1
                raise _Gone
            await answer
        finally:
            self._count(-1)
            if not answer.done():
                answer.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError, _Gone):
                await answer
        first = await watch
        if not first:
            raise _Gone
        return first

    def _count(self, change: int) -> None:
        self.active += change
        self.most_active = max(self.most_active, self.active)
        self._changed.set()

    def _next_fault(self, path: str) -> Fault:
        for planned in self._planned:
            if path.endswith(planned.path):
                planned.times -= 1
                if planned.times == 0:
                    self._planned.remove(planned)
                return planned.fault
        return Fault()

    async def _answer(
        self, request: Request, fault: Fault, writer: asyncio.StreamWriter, released: asyncio.Event
    ) -> None:
        if fault.hold:
            await released.wait()
        out = _Body(writer, fault)
        if fault.status != 200:
            error = {"message": fault.message, "type": "error", "code": str(fault.status)}
            await out.whole({"error": error, "message": fault.message})
        elif fault.garbage:
            await out.raw(b"<html>not what you asked for</html>")
        elif fault.deep:
            await out.raw(b"[" * 200_000, "application/json")
        elif request.path.endswith("/chat/completions"):
            await self._chat(request.body, fault, out, released)
        elif request.path.endswith("/embeddings"):
            await out.whole(self._embeddings(request.body, fault))
        elif request.path.endswith("/text-rerank/text-rerank"):
            given = request.body["input"]
            results = _ranked(given["query"], given["documents"], "relevance_score", fault)
            await out.whole({"output": {"results": results}, "usage": {"total_tokens": 7}, "request_id": "r"})
        elif request.path.endswith("/rerank") and "texts" in request.body:
            await out.whole(_ranked(request.body["query"], request.body["texts"], "score", fault))
        elif request.path.endswith("/rerank"):
            results = _ranked(request.body["query"], request.body["documents"], "relevance_score", fault)
            await out.whole({"id": "r", "results": results[: request.body.get("top_n")]})
        else:
            await _Body(writer, Fault(status=404)).whole({"error": {"message": f"no {request.path}"}})

    # --- OpenAI ----------------------------------------------------------------------

    async def _chat(self, body: dict[str, Any], fault: Fault, out: _Body, released: asyncio.Event) -> None:
        said = self.chat(body)
        pieces = [said] if isinstance(said, str) else list(said)
        usage = {"prompt_tokens": len(body["messages"]), "completion_tokens": len(pieces)}
        usage["total_tokens"] = sum(usage.values())
        known = {"id": "c", "created": 1, "model": body.get("model", "m")}
        await asyncio.sleep(self.delay)
        if not body.get("stream"):
            message = {"role": "assistant", "content": "".join(pieces)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await out.whole(known | {"object": "chat.completion", "choices": [choice], "usage": usage})
            return
        known["object"] = "chat.completion.chunk"
        await out.begin_stream()
        for count, piece in enumerate(pieces):
            if count == fault.error_after:
                await out.event({"error": {"message": fault.message, "type": "server_error", "code": 500}})
                await out.end_stream()
                return
            if count == fault.stall_after:
                await released.wait()
            await out.event(known | {"choices": [{"index": 0, "delta": {"content": piece}}]})
            await asyncio.sleep(self.pace)
        await out.event(known | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            await out.event(known | {"choices": [], "usage": usage})
        await out.send(b"data: [DONE]\n\n")
        await out.end_stream()

    def _embeddings(self, body: dict[str, Any], fault: Fault) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        size = fault.dimension or self.dimension
        items = [
            {"object": "embedding", "index": index, "embedding": _vector(text, size)}
            for index, text in enumerate(texts)
        ]
        return {
            "object": "list",
            "data": _spoilt(items, fault),
            "model": body.get("model", "m"),
            "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
        }


class _Body:
    """Writes one answer, with the faults of the wire."""

    def __init__(self, writer: asyncio.StreamWriter, fault: Fault) -> None:
        self._writer = writer
        self._fault = fault
        self._sent = 0
        self._chunked = False

    async def whole(self, value: object) -> None:
        await self.raw(json.dumps(value, ensure_ascii=False).encode(), "application/json")

    async def raw(self, data: bytes, media_type: str = "text/html") -> None:
        self._head(media_type, f"Content-Length: {len(data)}")
        await self.send(data)

    async def begin_stream(self) -> None:
        self._chunked = True
        self._head("text/event-stream", "Transfer-Encoding: chunked")
        await self._writer.drain()

    async def event(self, value: object) -> None:
        await self.send(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")

    async def end_stream(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        pieces = [data[at : at + 1] for at in range(len(data))] if self._fault.drip else [data]
        for piece in pieces:
            if self._fault.cut_after is not None and self._sent + len(piece) > self._fault.cut_after:
                self._write(piece[: self._fault.cut_after - self._sent])
                await self._writer.drain()
                # A closed half is an end of file in the middle, for a peer that must notice it.
                self._writer.close()
                raise _Gone
            self._write(piece)
            self._sent += len(piece)
            await self._writer.drain()
            if self._fault.drip:
                await asyncio.sleep(self._fault.pause)

    def _write(self, piece: bytes) -> None:
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)

    def _head(self, media_type: str, length: str) -> None:
        lines = [f"HTTP/1.1 {self._fault.status} Told", f"Content-Type: {media_type}", length]
        if self._fault.retry_after is not None:
            lines.append(f"Retry-After: {self._fault.retry_after}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode())


async def _read(reader: asyncio.StreamReader, pending: bytes) -> Request | None:
    try:
        head = pending + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(path=first.split()[1], headers=headers, body=json.loads(data or b"{}"))


def _vector(text: str, size: int) -> list[float]:
    """Equal texts get equal vectors; no meaning."""
    return [byte / 255 + 0.01 for byte in hashlib.blake2b(text.encode(), digest_size=min(size, 64)).digest()]


def _ranked(query: str, texts: Sequence[str], name: str, fault: Fault) -> list[dict[str, Any]]:
    """Best first, by the share of the question's words that a text holds."""
    words = set(query.lower().split())
    shares = [len(words & set(text.lower().split())) / max(len(words), 1) for text in texts]
    items = [
        {"index": index, name: share if fault.score is None else fault.score}
        for index, share in enumerate(shares)
    ]
    if fault.score is None:
        items.sort(key=lambda item: -item[name])
    return _spoilt(items, fault)


def _spoilt(items: list[dict[str, Any]], fault: Fault) -> list[dict[str, Any]]:
    items = items[: len(items) - fault.missing]
    if fault.reverse:
        items.reverse()
    if fault.no_index:
        return [{name: value for name, value in item.items() if name != "index"} for item in items]
    return [item | {"index": item["index"] + fault.shift} for item in items]


@contextlib.contextmanager
def threaded(**options: Any) -> Iterator[Provider]:
    """A provider in a thread of its own, for tests and programs without an event loop."""
    ready: threading.Event = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        async with Provider(**options) as provider:
            found.update(provider=provider, loop=asyncio.get_running_loop(), stop=asyncio.Event())
            ready.set()
            await found["stop"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="provider")
    thread.start()
    assert ready.wait(WAIT)
    try:
        yield found["provider"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(WAIT)
