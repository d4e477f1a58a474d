"""Connections of the HTTP server: how many there may be, and how long one may say nothing.

A subclass of uvicorn's protocol, which has a time-out between requests alone. A connection that has
sent no complete header in time is closed, and so is one whose body comes too slowly. Streams of answers
are not concerned: there the server speaks. At the limit the connection that has waited longest without
a request makes room for a new one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragstone.messages import render

_LOGGER = logging.getLogger(__name__)

HEADER_S = 10.0
"""How long a client may take for the header of a request."""

BODY_S = 10.0
BODY_BYTES = 10_000
"""In so many seconds so many bytes of a body must come, unless the server itself is behind in reading."""

MOST = 20_000
"""Connections, whatever the limit of open files."""

_WANTED_FILES = 65_536
_LEAST = 16
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"retry-after: 1\r\nconnection: close\r\ncontent-length: 26\r\n\r\nToo many open connections."
)


def most_connections() -> int:
    """How many connections there may be, below the limit of open files, which is raised where it may be.

    A quarter of the files, and at least 128, are left for the database, parsers and originals.
    """
    if sys.platform == "win32":
        return MOST
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(_WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = _WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    return max(_LEAST, min(MOST, files - max(128, files // 4)))


class Connections:
    """The connections of one server: how many may be open, and those that wait for a header, oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting: dict[Connection, None] = {}

    def protocol(self) -> type[H11Protocol]:
        """The class that uvicorn makes one of for each connection."""
        return type("CountedConnection", (Connection,), {"all": self})

    def make_room(self) -> bool:
        """Close the connection that has waited longest without a request; False when none does."""
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            return False
        oldest.drop("closed to make room")
        return True


class Connection(H11Protocol):
    """One connection, with a time for each header and a least speed of each body."""

    all: Connections

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.all.limit and not self.all.make_room():
            _LOGGER.warning("connection refused: too many are open")
            transport.write(_BUSY)
            transport.close()
            return
        super().connection_made(transport)
        self._wait_for_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self not in self.connections:  # it was refused, or dropped
            return
        self._received += len(data)
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            if self._timer is None and not self.transport.is_closing():
                self._wait_for_header()
        elif state is h11.SEND_BODY:
            if self in self.all.waiting or self._timer is None:
                self._stop_waiting()
                self._watch_body()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Between two requests uvicorn's own time-out holds; room is made of such connections too.
        self._stop_waiting()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.all.waiting[self] = None

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or has no Host, is told so as any other problem."""
        body = json.dumps(
            {
                "type": "about:blank",
                "status": 400,
                "code": "access.not_http",
                "title": "Bad Request",
                "detail": render("access.not_http", "en"),
            }
        ).encode()
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def drop(self, reason: str) -> None:
        """Close at once, whatever is still to be sent."""
        self._stop_waiting()
        _LOGGER.info("connection dropped", extra={"reason": reason})
        self.transport.abort()

    def _wait_for_header(self) -> None:
        self._stop_waiting()
        self.all.waiting[self] = None
        self._timer = self.loop.call_later(HEADER_S, self.drop, "no complete header in time")

    def _watch_body(self) -> None:
        self._received = 0
        self._timer = self.loop.call_later(BODY_S, self._check_body)

    def _check_body(self) -> None:
        self._timer = None
        if self.conn.their_state is not h11.SEND_BODY:
            return
        # Paused: what has come is not read yet, which is not the client's doing.
        if self._received < BODY_BYTES and not self.flow.read_paused:
            self.drop("a body that comes too slowly")
        else:
            self._watch_body()

    def _stop_waiting(self) -> None:
        self.all.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
