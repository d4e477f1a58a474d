"""Files of a multipart body, one after the other and never whole in memory.

The framework's own reading would write a body of any size to the disk before a route is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ragstone.errors import ContentTooLarge, InputError
from ragstone.kb.uploads import Spool

MAX_FILES = 500
"""Of one request."""
MAX_FIELDS = 20
MAX_FIELD_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value that came before the files."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A file that has arrived whole, or was too large. It is closed when the next is asked for."""

    spool: Spool
    error: ContentTooLarge | None = None


Item: TypeAlias = Field | Incoming
_Headers: TypeAlias = dict[str, bytes]
_Event: TypeAlias = _Headers | bytes | None
"""A part begins with these headers, goes on with these bytes, ends."""


async def received(request: Request, *, folder: Path, limit: int) -> AsyncGenerator[Item, None]:
    """Fields and files in the order in which they come; a file of over `limit` bytes is skipped.

    Raises:
        InputError: no multipart body, a broken one, one that was cut off, or too many parts.
        ContentTooLarge: a file of more than twice the limit: it is not read to its end.
        StoreFull: no room to receive it.
    """
    reader = _Reader(_boundary(request))
    part: _FieldPart | _FilePart | None = None
    counts = {_FieldPart: 0, _FilePart: 0}
    try:
        async with aclosing(_events(request, reader)) as events:
            async for event in events:
                if isinstance(event, dict):
                    part = _part(event, folder, limit)
                    counts[type(part)] += 1
                    if counts[_FilePart] > MAX_FILES or counts[_FieldPart] > MAX_FIELDS:
                        raise InputError("upload.many", files=MAX_FILES, fields=MAX_FIELDS)
                elif part is not None and event is not None:
                    await part.write(event)
                elif part is not None:
                    yield part.item()
                    part.close()
                    part = None
    finally:
        if part is not None:
            part.close()


async def _events(request: Request, reader: _Reader) -> AsyncGenerator[_Event, None]:
    try:
        async for data in request.stream():
            for event in reader.feed(data):
                yield event
    except ClientDisconnect as error:
        raise InputError("upload.cut_off") from error
    if not reader.ended:
        raise InputError("upload.cut_off")


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise InputError("upload.not_multipart")
    return options[b"boundary"]


class _Reader:
    """The parser's callbacks as a list of events."""

    def __init__(self, boundary: bytes) -> None:
        self.ended = False
        self._events: list[_Event] = []
        self._headers: _Headers = {}
        self._name, self._value = b"", b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_end": self._whole,
                },
            )
        except FormParserError as error:
            raise InputError("upload.broken") from error

    def feed(self, data: bytes) -> list[_Event]:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise InputError("upload.broken") from error
        events, self._events = self._events, []
        return events

    def _begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value
        self._name, self._value = b"", b""

    def _headers_finished(self) -> None:
        self._events.append(self._headers)

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _end(self) -> None:
        self._events.append(None)

    def _whole(self) -> None:
        self.ended = True


def _part(headers: _Headers, folder: Path, limit: int) -> _FieldPart | _FilePart:
    _, options = parse_options_header(headers.get("content-disposition", b""))
    if b"filename" in options:
        return _FilePart(Spool(folder, name=_text(options[b"filename"]), limit=limit), limit)
    return _FieldPart(_text(options.get(b"name", b"")))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class _FieldPart:
    def __init__(self, name: str) -> None:
        self._name, self._value = name, b""

    async def write(self, data: bytes) -> None:
        self._value += data
        if len(self._value) > MAX_FIELD_BYTES:
            raise InputError("upload.field_size", name=self._name[:80], limit=MAX_FIELD_BYTES)

    def item(self) -> Field:
        return Field(name=self._name, value=_text(self._value))

    def close(self) -> None:
        pass


class _FilePart:
    def __init__(self, spool: Spool, limit: int) -> None:
        self._spool, self._limit = spool, limit
        self._error: ContentTooLarge | None = None
        self._skipped = 0

    async def write(self, data: bytes) -> None:
        if self._error is None:
            try:
                await self._spool.write(data)
            except ContentTooLarge as error:
                self._error = error
            return
        # The files behind it may be fine, so it is read on, but not for ever.
        self._skipped += len(data)
        if self._skipped > self._limit:
            raise self._error

    def item(self) -> Incoming:
        return Incoming(spool=self._spool, error=self._error)

    def close(self) -> None:
        self._spool.close()
