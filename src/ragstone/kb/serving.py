"""The processes of the application: the HTTP server with a worker beside it, and a worker alone."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import uvicorn

from ragstone.errors import RagstoneError, first_error
from ragstone.kb.api.app import create_app
from ragstone.kb.bootstrap import App
from ragstone.kb.settings import Settings
from ragstone.kb.worker import Worker


def run(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` gets the address once requests are answered."""
    anyio.run(_serve, settings, on_ready)


def work(settings: Settings, *, on_ready: Callable[[], None]) -> None:
    """Do jobs until SIGINT or SIGTERM; what runs then may end, at the second signal it is given back."""
    anyio.run(_work, settings, on_ready)


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    parts = App(settings)
    beside = _WorkerBeside(parts)
    config = uvicorn.Config(
        create_app(parts, beside=beside.running),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        lifespan="on",
    )
    server = _Server(config, on_ready)
    beside.on_crash = lambda: setattr(server, "should_exit", True)
    await server.serve()
    if beside.crash is not None:
        raise beside.crash


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

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: object = None) -> None:
        await super().startup(None)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://{host}:{port}")
