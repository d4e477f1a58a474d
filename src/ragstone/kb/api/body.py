"""Bodies before a route sees them: JSON of limited size and storable text, files where they are taken."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.errors import ContentTooLarge, InputError, RagstoneError, UnsupportedContent
from ragstone.kb.api.problems import problem

MOST_JSON = 1_000_000
"""Bytes of a JSON body."""

# Where multipart bodies are taken; the route itself counts their bytes.
_UPLOADS = re.compile(r"/api/bases/[^/]+/documents")
_JSON = re.compile(r"application/(?:[\w.-]+\+)?json", re.ASCII | re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Bodies:
    """ASGI middleware that reads JSON bodies whole, and refuses what no route could take."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(headers := Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        try:
            kinds = headers.getlist("content-type")
            kind = kinds[0].partition(";")[0].strip() if len(kinds) == 1 else ""
            if kind.lower() == "multipart/form-data" and _UPLOADS.fullmatch(scope["path"]):
                await self._app(scope, receive, send)
                return
            if not _JSON.fullmatch(kind):
                raise UnsupportedContent("access.body_type")
            body = await _read(headers, receive)
            if body is None:
                return
            _check_text(body)
        except RagstoneError as error:
            await problem(Request(scope), error)(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip() != "0"


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body; None when the client left before its end."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > MOST_JSON:
        raise ContentTooLarge("access.body_size", limit=MOST_JSON)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_JSON:
            raise ContentTooLarge("access.body_size", limit=MOST_JSON)
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_text(body: bytes) -> None:
    """UTF-8 without what cannot be stored: NUL, and halves of surrogate pairs, also as escapes."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("access.body_text") from error
    if "\0" in text or ("\\u" in text and not _whole(text)):
        raise InputError("access.body_text")


def _whole(text: str) -> bool:
    """Whether every escape is a character: none is NUL, and each high surrogate has its low one behind it."""
    awaited = -1
    for found in _ESCAPE.finditer(text):
        unit = int(found[1], 16) if found[1] else -1
        low = 0xDC00 <= unit <= 0xDFFF
        if unit == 0 or ((low or awaited >= 0) and not (low and awaited == found.start())):
            return False
        awaited = found.end() if 0xD800 <= unit <= 0xDBFF else -1
    return awaited < 0


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that gives the body once, and afterwards what comes: that the client leaves."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
