"""One process of the application: the HTTP server, and the worker beside it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import uvicorn

from ragstone.kb.api.app import create_app
from ragstone.kb.api.events import RunningAnswers
from ragstone.kb.bootstrap import App
from ragstone.kb.settings import Settings


def run(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the address once requests are answered."""
    anyio.run(_serve, settings, on_ready)


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    api = create_app(App(settings))
    config = uvicorn.Config(
        api,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        lifespan="on",
    )
    server = _Server(config, on_ready, api.state.running)
    await server.serve()


class _Server(uvicorn.Server):
    """Says where it listens, also when the port was chosen by the system (`port = 0`)."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[str], None], running: RunningAnswers
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._running = running

    async def startup(self, sockets: object = None) -> None:
        await super().startup(None)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://{host}:{port}")

    async def shutdown(self, sockets: object = None) -> None:
        # Before it waits for the connections: an answer may go on for minutes.
        await self._running.stop()
        await super().shutdown(None)
