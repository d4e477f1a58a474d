"""Who comes in: a key where keys are asked for, else only this machine's own programs and pages.

This stands before routes and before bodies are read, and lets nothing pass that it does not know:
a route that forgets to ask who calls is still behind the door.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ragstone.errors import Forbidden, InputError, NotFound, RagstoneError, Unauthorized
from ragstone.kb.api import welcome
from ragstone.kb.api.problems import problem
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, Caller

OPEN_PATHS = frozenset({"/healthz", "/readyz", *welcome.PATHS})
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
LONGEST_KEY = 256


class Door:
    """ASGI middleware that puts the `Caller` into the request's state."""

    def __init__(self, app: ASGIApp, *, parts: App, origins: Collection[str] = ()) -> None:
        self._app = app
        self._parts = parts
        self._local = is_loopback(parts.settings.host)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _check_address(scope)
                if scope["path"] not in OPEN_PATHS:
                    scope["state"]["caller"] = await self._caller(scope)
            except RagstoneError as error:
                await problem(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        keyring = await self._parts.keyring()
        headers = Headers(scope=scope)
        if not self._local or await keyring.wanted():
            return await keyring.caller(key_of(headers))
        self._check_local(scope["method"], headers)
        return OWNER

    def _check_local(self, method: str, headers: Headers) -> None:
        """A page of the web may make a browser here send requests: under its own name, or with its origin."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_loopback(_host_of(hosts[0])):
            raise Forbidden("access.foreign_host")
        if any(name in headers for name in _FORWARDED):
            raise Forbidden("access.foreign_host")
        if method not in _CHANGING:
            return
        origins = headers.getlist("origin")
        own = {f"http://{hosts[0]}", *self._origins}
        if any(origin not in own for origin in origins):
            raise Forbidden("access.foreign_origin", origin=origins[0][:100])
        if not origins and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Forbidden("access.foreign_origin", origin=headers["sec-fetch-site"][:100])


def key_of(headers: Headers) -> str:
    """The key of a request, from the one header that carries it.

    Raises:
        Unauthorized: no key, several, or one in another form.
    """
    bearers, plain = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not bearers and not plain:
        raise Unauthorized("access.key_missing")
    if len(bearers) + len(plain) > 1:
        raise Unauthorized("access.key_twice")
    if plain:
        key = plain[0].strip()
    else:
        scheme, _, key = bearers[0].strip().partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer":
            raise Unauthorized("access.key_twice")
    if not key or len(key) > LONGEST_KEY:
        raise Unauthorized("access.key_unknown")
    return key


def is_loopback(host: str) -> bool:
    """Whether this name or address is the machine itself and nothing else."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host_of(header: str) -> str:
    """The name in a Host header, without the port; empty when it cannot be read."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return ""
    return parts.hostname or "" if parts.netloc == header and "@" not in header else ""


def _check_address(scope: Scope) -> None:
    """No control character gets any further: PostgreSQL stores no NUL, and logs are read by people."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in scope["path"]):
        raise NotFound("access.query_text")
    query: bytes = scope["query_string"]
    if b"%00" in query or any(byte < 0x20 for byte in query):
        raise InputError("access.query_text")
