"""The outermost layer: an id for every request, headers for every answer, one line in the log.

What no other layer has caught ends here, as a problem without a trace of the code.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from urllib.parse import urlsplit, urlunsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.errors import RagstoneError, first_error
from ragstone.kb.api import problems

_LOGGER = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# An answer is data and nothing that a browser runs, frames or keeps; a route may say otherwise.
_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_QUIET = ("/healthz", "/readyz")


class Edge:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _Answer(send, request_id)
        began = time.perf_counter()
        try:
            await self._app(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 (the edge of the API)
            await self._failed(error, scope, receive, answer)
        finally:
            _log_request(scope, answer.status, (time.perf_counter() - began) * 1_000)

    async def _failed(self, error: Exception, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request, first = Request(scope), first_error(error)
        if not isinstance(first, RagstoneError) or answer.status is not None:
            _LOGGER.error("failed", extra={"request_id": answer.request_id}, exc_info=first)
        # An answer under way is cut off, so that the client does not take it for whole.
        if answer.status is None:
            ours = isinstance(first, RagstoneError)
            response = problems.problem(request, first) if ours else problems.unexpected(request)
            await response(scope, receive, answer)


class _Answer:
    """`send` that adds the headers and remembers the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.request_id
            for name, value in _HEADERS:
                headers.setdefault(name, value)
            if (place := headers.get("location", "")) and "://" in place:
                # Of a slash too many: whatever name the client gave the server is not repeated.
                headers["Location"] = urlunsplit(("", "", *urlsplit(place)[2:4], ""))
        await self._send(message)


def _log_request(scope: Scope, status: int | None, milliseconds: float) -> None:
    """The route, not the address: that may hold words of a question."""
    caller = scope["state"].get("caller")
    facts = {
        "request_id": scope["state"]["request_id"],
        "method": scope["method"],
        "route": getattr(scope.get("route"), "path", None),
        "status": status,
        "ms": round(milliseconds, 1),
        "key_id": getattr(caller, "key_id", None),
    }
    quiet = scope["path"] in _QUIET and status is not None and status < 500
    _LOGGER.log(logging.DEBUG if quiet else logging.INFO, "request", extra=facts)
