"""Server-sent events: an answer over HTTP while it is being written.

    event: delta
    data: {"text": "..."}
    id: 3

FastAPI's own way (a route that yields) leaves the generator open when the client goes while an
event waits to be sent, and has begun the response before a question can be refused. Here the
route has checked everything, and one task owns the work: it is cancelled when the client goes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ragstone.errors import RagstoneError, StoreUnavailable, first_error
from ragstone.kb.api.problems import problem
from ragstone.kb.plain import plain

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

PING_S = 15.0
"""A proxy that hears nothing for a minute closes the connection."""

UNREAD_S = 60.0
"""A client that takes nothing for so long is gone."""

STOP_S = 10.0
"""How long a server that stops waits for answers to be stored."""

LAST_WORD_S = 1.0

# The standard ends a line at CR and LF only, which JSON escapes; readers of text often at these too.
_LINE_ENDS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}


class EmitEvent(Protocol):
    async def __call__(self, name: str, data: Mapping[str, object], /) -> None: ...


class RunningAnswers:
    """The answers that this process is writing, so that a server that stops can end them first."""

    def __init__(self) -> None:
        self.stopping = False
        self._scopes: set[anyio.CancelScope] = set()
        self._ended = anyio.Event()

    @contextmanager
    def running(self, scope: anyio.CancelScope) -> Generator[None]:
        self._scopes.add(scope)
        if self.stopping:
            scope.cancel()
        try:
            yield
        finally:
            self._scopes.discard(scope)
            if self.stopping and not self._scopes:
                self._ended.set()

    async def stop(self) -> None:
        """Cancel them all, and wait until they have stored what there is."""
        self.stopping = True
        for scope in self._scopes:
            scope.cancel()
        if self._scopes:
            with anyio.move_on_after(STOP_S):
                await self._ended.wait()


async def while_heard(request: Request, work: Callable[[anyio.CancelScope], Awaitable[T]]) -> T:
    """What `work` returns. It is cancelled when the client goes or the server stops.

    Raises:
        StoreUnavailable: it was cancelled; nobody may be left to be told.
    """
    running: RunningAnswers = request.app.state.running
    results: list[T] = []

    async def watch(scope: anyio.CancelScope) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            with running.running(tasks.cancel_scope):
                tasks.start_soon(watch, tasks.cancel_scope)
                results.append(await work(tasks.cancel_scope))
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    if not results:
        raise StoreUnavailable("session.stopping")
    return results[0]


class EventStream(StreamingResponse):
    """Sends what `produce` emits; cancels it when the client goes away or the server stops.

    Events have ids 1, 2, 3, ... A ping is sent when nothing was for 15 seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self, request: Request, produce: Callable[[EmitEvent], Awaitable[None]], *, status_code: int = 200
    ) -> None:
        # Nothing is read from the content: `__call__` sends by itself.
        super().__init__(
            (), status_code=status_code, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        )
        self._request = request
        self._produce = produce
        self._count = 0
        self._sent_at = 0.0
        self._lock = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await while_heard(self._request, partial(self._work, send))
        except RagstoneError as error:
            with anyio.move_on_after(LAST_WORD_S):
                await self._emit(send, "error", problem_data(self._request, error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _work(self, send: Send, scope: anyio.CancelScope) -> None:
        async def emit(name: str, data: Mapping[str, object], /) -> None:
            with anyio.move_on_after(UNREAD_S) as patience:
                await self._emit(send, name, data)
            if patience.cancelled_caught:
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ping, send)
            await self._produce(emit)
            tasks.cancel_scope.cancel()

    async def _emit(self, send: Send, name: str, data: Mapping[str, object]) -> None:
        self._count += 1
        text = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":")).translate(_LINE_ENDS)
        await self._send(send, format_sse_event(event=name, data_str=text, id=str(self._count)))

    async def _send(self, send: Send, body: bytes) -> None:
        async with self._lock:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            self._sent_at = anyio.current_time()

    async def _ping(self, send: Send) -> None:
        self._sent_at = anyio.current_time()
        while True:
            await anyio.sleep(max(0.0, self._sent_at + PING_S - anyio.current_time()))
            if anyio.current_time() >= self._sent_at + PING_S:
                await self._send(send, KEEPALIVE_COMMENT)


def problem_data(request: Request, error: RagstoneError) -> dict[str, object]:
    """The body of the problem that `error` is outside of a stream."""
    return json.loads(bytes(problem(request, error).body))
