"""HTTP as bytes on a connection: a client that costs little CPU, for measuring, and its event streams."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Event:
    """One server-sent event. `at` is when its last line came, in seconds of `time.perf_counter`."""

    name: str
    data: Any
    event_id: str = ""
    at: float = 0.0


@dataclass(kw_only=True)
class Lines:
    """Lines of an event stream to events; a comment such as a ping is counted and gives none."""

    pings: int = 0
    _name: str = "message"
    _data: list[str] = field(default_factory=list[str])
    _event_id: str = ""

    def feed(self, line: str) -> Event | None:
        if not line:
            if not self._data:
                return None
            text, name, self._data, self._name = "\n".join(self._data), self._name, [], "message"
            return Event(name=name, data=json.loads(text), event_id=self._event_id, at=time.perf_counter())
        if line.startswith(":"):
            self.pings += 1
            return None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self._event_id = value
        return None


def events_of(lines: Iterable[str]) -> list[Event]:
    reading = Lines()
    return [event for line in lines if (event := reading.feed(line)) is not None]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer, and the seconds until its first and its last byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    first_s: float
    total_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection that is kept, one request at a time. ConnectionError when it breaks."""

    def __init__(self, url: str, *, key: str = "") -> None:
        self._place = urlsplit(url)
        self._key = key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close as a client that goes away."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def call(
        self, method: str, path: str, body: object = None, *, data: bytes = b"", media_type: str = ""
    ) -> Reply:
        """Ask and read the whole answer; `body` is sent as JSON, `data` as it is."""
        began = time.perf_counter()
        try:
            status, headers = await self._ask(method, path, body, data, media_type)
            first = time.perf_counter()
            async with aclosing(self._body(headers)) as pieces:
                content = b"".join([piece async for piece in pieces])
        except (OSError, EOFError, ValueError) as error:
            self.drop()
            raise ConnectionError(f"{method} {path}: {error}") from error
        ended = time.perf_counter()
        if headers.get("connection", "").lower() == "close":
            self.drop()
        return Reply(
            status=status, headers=headers, body=content, first_s=first - began, total_s=ended - began
        )

    async def events(self, path: str, body: object) -> AsyncGenerator[Event]:
        """POST and read the answer as events; the first is `opened`, with the status of the answer."""
        try:
            status, headers = await self._ask("POST", path, body, b"", "")
            yield Event(name="opened", data=status, at=time.perf_counter())
            reading, pending = Lines(), b""
            async with aclosing(self._body(headers)) as pieces:
                async for piece in pieces:
                    *lines, pending = (pending + piece).split(b"\n")
                    for line in lines if status == 200 else ():
                        if (event := reading.feed(line.decode().removesuffix("\r"))) is not None:
                            yield event
        except (OSError, EOFError, ValueError) as error:
            self.drop()
            raise ConnectionError(f"{path}: {error}") from error

    async def _ask(
        self, method: str, path: str, body: object, data: bytes, media_type: str
    ) -> tuple[int, dict[str, str]]:
        if body is not None:
            data, media_type = json.dumps(body).encode(), "application/json"
        head = [f"{method} {path} HTTP/1.1", f"Host: {self._place.netloc}", f"Content-Length: {len(data)}"]
        if media_type:
            head.append(f"Content-Type: {media_type}")
        if self._key:
            head.append(f"Authorization: Bearer {self._key}")
        if self._streams is not None and self._streams[0].at_eof():
            self.drop()  # a server closes a connection that says nothing for some seconds
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        writer.write("\r\n".join([*head, "", ""]).encode() + data)
        await writer.drain()
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def _body(self, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
        assert self._streams is not None
        reader = self._streams[0]
        if headers.get("transfer-encoding", "").lower() != "chunked":
            yield await reader.readexactly(int(headers.get("content-length", 0)))
            return
        while size := int(await reader.readline(), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readline()


def multipart(files: Sequence[tuple[str, bytes]], **fields: str) -> tuple[bytes, str]:
    """(body, media type) of a form with these files, as a browser sends it."""
    edge = secrets.token_hex(16)
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, content in files:
        disposition = f'form-data; name="files"; filename="{name}"'
        head = f"--{edge}\r\nContent-Disposition: {disposition}\r\nContent-Type: text/plain\r\n\r\n"
        parts += [head.encode(), content, b"\r\n"]
    return b"".join([*parts, f"--{edge}--\r\n".encode()]), f"multipart/form-data; boundary={edge}"
