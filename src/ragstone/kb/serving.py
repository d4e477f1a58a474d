"""One process of the application: the HTTP server, and the worker beside it."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.to_thread
import uvicorn

from ragstone.errors import InvalidSetting, RagstoneError, StoreUnavailable, first_error
from ragstone.kb import keys, logs
from ragstone.kb.api.app import create_app
from ragstone.kb.api.connections import Connections, most_connections
from ragstone.kb.api.door import is_loopback
from ragstone.kb.api.events import RunningAnswers
from ragstone.kb.bootstrap import App
from ragstone.kb.settings import Settings
from ragstone.kb.worker import Worker

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


def work(settings: Settings, *, on_ready: Callable[[], None]) -> None:
    """Do jobs until SIGINT or SIGTERM; what runs then may end, at the second signal it is given back."""
    logs.configure(settings)
    anyio.run(_work, settings, on_ready)


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    parts = App(settings)
    beside = _WorkerBeside(parts)
    try:
        await _check_start(parts)
        listening = await anyio.to_thread.run_sync(_listen, settings.host, settings.port)
        api = create_app(parts, beside=beside.running)
        config = uvicorn.Config(
            api,
            # h11: httptools puts no bound on the size of headers.
            http=Connections(most_connections()).protocol(),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
        )
        server = _Server(config, on_ready, api.state.running)
        beside.on_crash = lambda: setattr(server, "should_exit", True)
        await server.serve([listening])
        if beside.crash is not None:
            raise beside.crash
    finally:
        await parts.aclose()


async def _work(settings: Settings, on_ready: Callable[[], None]) -> None:
    parts = App(settings)
    try:
        worker = Worker.over(parts, concurrency=max(1, settings.worker_concurrency))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_at_signal, worker, tasks.cancel_scope)
            await worker.run(on_ready=on_ready)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group
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


async def _stop_at_signal(worker: Worker, scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            break
        worker.stop()
        async for _ in signals:
            scope.cancel()


class _WorkerBeside:
    """A worker in the server's process. When it breaks down the server ends too, and `crash` says why."""

    def __init__(self, parts: App) -> None:
        self._parts = parts
        self.on_crash: Callable[[], None] = lambda: None
        self.crash: RagstoneError | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        concurrency = self._parts.settings.worker_concurrency
        if not concurrency:
            yield
            return
        worker = Worker.over(self._parts, concurrency=concurrency)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run, worker)
            try:
                yield
            finally:
                worker.stop()

    async def _run(self, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception as error:  # noqa: BLE001 (the edge of the worker: the server says it and ends)
            cause = first_error(error)
            self.crash = RagstoneError("jobs.worker_crashed", kind=type(cause).__name__, reason=str(cause))
            self.crash.__cause__ = cause
            self.on_crash()


class _Server(uvicorn.Server):
    """Says where it listens, also when the port was chosen by the system (`port = 0`)."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[str], None], running: RunningAnswers
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._running = running

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before it waits for the connections: an answer may go on for minutes.
        await self._running.stop()
        await super().shutdown(sockets)
