"""One process of the application: the HTTP server, and the worker beside it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.to_thread
import uvicorn

from ragstone.errors import InvalidSetting, StoreUnavailable
from ragstone.kb import keys, logs
from ragstone.kb.api.app import create_app
from ragstone.kb.api.door import is_loopback
from ragstone.kb.bootstrap import App
from ragstone.kb.settings import Settings

STOP_S = 20
"""How long answers under way may go on after SIGTERM."""


def run(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the address once requests are answered.

    Raises:
        InvalidSetting: names a setting that this process cannot start with. StoreError: the
            database does not answer.
    """
    logs.configure(settings)
    anyio.run(_serve, settings, on_ready)


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    parts = App(settings)
    try:
        await _check_start(parts)
        listening = await anyio.to_thread.run_sync(_listen, settings.host, settings.port)
        config = uvicorn.Config(
            create_app(parts),
            # httptools puts no bound on the size of headers.
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
        )
        await _Server(config, on_ready).serve([listening])
    finally:
        await parts.aclose()


async def _check_start(parts: App) -> None:
    """What would only be noticed later, named now: nobody is let in from outside without a key.

    Blobs and wake-ups that do not answer at the moment are waited for (`/readyz` says so); a
    setting that cannot be right is not.
    """
    await parts.store()
    with suppress(StoreUnavailable):
        await (await parts.blobs()).check()
    with suppress(StoreUnavailable):
        await (await parts.wakeup()).check()
    if not is_loopback(parts.settings.host) and not await keys.any_usable(await parts.database()):
        raise InvalidSetting("access.no_key", host=parts.settings.host)


def _listen(host: str, port: int) -> socket.socket:
    """A socket at the first address of `host`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InvalidSetting("access.listen", host=host, port=port, reason=reason) from error
    return listening


class _Server(uvicorn.Server):
    """Says where it listens, also when the port was chosen by the system (`port = 0`)."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
