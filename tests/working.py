"""Uploads without HTTP, and a worker over them, for tests that look at jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from ragstone.kb import uploads
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER
from ragstone.kb.jobs import Job
from ragstone.kb.originals import read_blob
from ragstone.kb.settings import Settings
from ragstone.kb.uploads import Spool, Target
from ragstone.kb.worker import Worker
from ragstone.types import Blob

WAIT_S = 30.0


@asynccontextmanager
async def application(conninfo: str, home: Path, **settings: Any) -> AsyncIterator[App]:
    """The parts of an application with its tables, on a database of its own."""
    app = App(Settings(home=home, database_url=conninfo, test_embedder="fake", **settings))
    await app.store()
    try:
        yield app
    finally:
        await app.aclose()


async def upload(
    app: App, base_id: str, data: bytes | str, name: str = "orchids.txt", *, uri: str = "", wake: bool = True
) -> str:
    """The id of the document that these bytes become once a worker has read them."""
    data = data.encode() if isinstance(data, str) else data
    async with Spool(app.settings.home / "spool", name=name, limit=10_000_000) as spool:
        await spool.write(data)
        target = Target(base_id=base_id, uri=uri)
        done = await uploads.upload(await app.database(), await app.blobs(), OWNER, spool, target)
    if wake:
        await (await app.wakeup()).notify()
    return done.document_id


async def rows(app: App, query: str, *values: object) -> list[tuple[Any, ...]]:
    async with (await app.database()).connection() as connection:
        cursor = await connection.execute(query, values)  # pyright: ignore[reportArgumentType]
        return await cursor.fetchall() if cursor.description else []


async def until(true: Callable[[], Awaitable[bool]], *, seconds: float = WAIT_S, every: float = 0.05) -> None:
    """Wait until something is so, at most so long.

    Whoever asks a server does not ask more often: nobody reads its log, which holds up what is full.
    """
    with anyio.fail_after(seconds):
        while not await true():  # noqa: ASYNC110 (other processes change it)
            await anyio.sleep(every)


async def states(app: App) -> set[str]:
    return {row[0] for row in await rows(app, "SELECT state FROM jobs")}


async def settled(app: App, *, seconds: float = WAIT_S) -> None:
    """Wait until no job is queued or running."""

    async def quiet() -> bool:
        return not await states(app) & {"queued", "running"}

    await until(quiet, seconds=seconds)


async def unchanged(database: object, base_id: str, settings: Settings) -> Settings:
    return settings


@asynccontextmanager
async def working(
    app: App,
    *,
    concurrency: int = 2,
    read: Callable[[App, Job], Awaitable[Blob]] = read_blob,
    settings_of: Callable[..., Awaitable[Settings]] = unchanged,
) -> AsyncIterator[Worker]:
    """A worker at work in this process; stopped at the end."""
    worker = Worker(app, concurrency=concurrency, read_blob=read, settings_of=settings_of)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        try:
            yield worker
        finally:
            worker.stop()


class Gate:
    """Holds jobs where they read their original, until they are let through."""

    def __init__(self) -> None:
        self.reached, self.open = anyio.Event(), anyio.Event()
        self.jobs: list[Job] = []

    async def __call__(self, parts: App, job: Job) -> Blob:
        self.jobs.append(job)
        self.reached.set()
        await self.open.wait()
        return await read_blob(parts, job)

    async def wait(self) -> None:
        with anyio.fail_after(WAIT_S):
            await self.reached.wait()
