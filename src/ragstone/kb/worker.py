"""The worker: takes jobs and does them, several at once, until it is stopped.

What a job writes is guarded by its row: a worker whose lease has run out, or whose job was
cancelled or went with its document, writes nothing any more.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import anyio

from ragstone.errors import Conflict, RagstoneError
from ragstone.ingest import ChunksEmbedded, FileResult, PagesRead
from ragstone.kb import jobs
from ragstone.kb.base_settings import settings_of
from ragstone.kb.bootstrap import App
from ragstone.kb.jobs import Job
from ragstone.kb.originals import read_blob
from ragstone.kb.reindex import ReindexEvent, ToBuild
from ragstone.kb.settings import Settings
from ragstone.kb.upkeep import repeated
from ragstone.kb.wakeup import Wakeup
from ragstone.postgres.pool import Connection, Database
from ragstone.protocols import Splitter
from ragstone.types import Blob, Chunk, Document

_LOGGER = logging.getLogger(__name__)

IDLE_S = 5.0
"""A job whose wake-up was lost is found after so long."""
LOCKED_S = 0.1
PROGRESS_S = 0.5
"""Progress is written at most so often."""
GRACE_S = 10.0
"""What runs when the worker is stopped may end within so long; else it is given back."""
_GIVE_BACK_S = 5.0
_NOT_SWEPT = "jobs of dead workers not looked for"

ReadBlob: TypeAlias = Callable[[App, Job], Awaitable[Blob]]
"""The original of an `index` job, with the uri, name and metadata of its file."""
SettingsOf: TypeAlias = Callable[[Database, str, Settings], Awaitable[Settings]]
"""The settings as a base has them."""


class Worker:
    """Does up to `concurrency` jobs at once. `run` returns after `stop`; may be run once.

    A job that fails leaves its reason and the others go on. While the database cannot be
    reached nothing is taken, and the worker waits for it.
    """

    def __init__(self, parts: App, *, concurrency: int, read_blob: ReadBlob, settings_of: SettingsOf) -> None:
        self._parts = parts
        self._concurrency = concurrency
        self._read_blob, self._settings_of = read_blob, settings_of
        self._lease = parts.settings.lease_seconds
        self._name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._slots = anyio.Semaphore(concurrency)
        self._taking = anyio.CancelScope()
        self._at_work: set[str] = set()

    @classmethod
    def over(cls, parts: App, *, concurrency: int) -> Worker:
        """One that reads the originals of `parts` with the settings of each base."""
        return cls(parts, concurrency=concurrency, read_blob=read_blob, settings_of=settings_of)

    def stop(self) -> None:
        """Take no more; what runs may end within GRACE_S, and is then given back."""
        self._taking.cancel()

    async def run(self, *, on_ready: Callable[[], None] | None = None) -> None:
        """Until `stop`; `on_ready` is called once jobs are taken.

        Raises:
            RagstoneError: database or wake-ups cannot be opened.
        """
        database, wakeup = await self._parts.database(), await self._parts.wakeup()
        await self._parts.store()  # the tables
        if on_ready is not None:
            on_ready()
        async with anyio.create_task_group() as beside:
            sweep = partial(repeated, partial(self._sweep, database, wakeup), failed=_NOT_SWEPT)
            beside.start_soon(sweep, min(self._lease / 3, IDLE_S))
            async with anyio.create_task_group() as working:
                with self._taking:
                    while True:
                        await self._slots.acquire()
                        job = await self._next(database, wakeup)
                        working.start_soon(self._work, database, job)
                working.cancel_scope.deadline = anyio.current_time() + GRACE_S
            beside.cancel_scope.cancel()

    # --- finding work ----------------------------------------------------------------

    async def _next(self, database: Database, wakeup: Wakeup) -> Job:
        while True:
            try:
                if (job := await self._taken(database)) is not None:
                    return job
                due = await jobs.due_in(database)
            except RagstoneError as error:
                _LOGGER.warning("no job could be taken", extra={"code": error.code})
                due = None
            # One that is due and was not had is locked by somebody at the moment.
            await wakeup.wait(IDLE_S if due is None else min(max(due, LOCKED_S), IDLE_S))

    async def _taken(self, database: Database) -> Job | None:
        # Not cut short: what the table says was taken must be done.
        with anyio.CancelScope(shield=True):
            return await jobs.take(database, worker=self._name, lease=self._lease)

    async def _sweep(self, database: Database, wakeup: Wakeup) -> None:
        if freed := await jobs.sweep(database, at_work=self._at_work):
            _LOGGER.warning("jobs of dead workers freed", extra={"jobs": freed})
            await wakeup.notify()

    # --- doing it --------------------------------------------------------------------

    async def _work(self, database: Database, job: Job) -> None:
        attempt = _Attempt(job)
        # A big file may keep the interpreter busy for longer than a lease: that is no dead worker.
        self._at_work.add(job.worker_id)
        try:
            await self._try(database, attempt)
            if not attempt.lost:
                await self._end(database, attempt)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_GIVE_BACK_S, shield=True):
                await self._given_back(database, job)
            raise
        finally:
            self._at_work.discard(job.worker_id)
            self._slots.release()

    async def _try(self, database: Database, attempt: _Attempt) -> None:
        """One attempt under its lease; how it went is in `attempt`."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hold, database, attempt, tasks.cancel_scope)
            try:
                await self._do(database, attempt)
            except Exception as error:  # noqa: BLE001 (the edge: whatever went wrong is the job's end)
                attempt.error = error
            tasks.cancel_scope.cancel()

    async def _hold(self, database: Database, attempt: _Attempt, scope: anyio.CancelScope) -> None:
        """Renew the lease and write progress; when the job is no longer ours, end the work."""
        renewed, written = anyio.current_time(), attempt.progress
        while True:
            await anyio.sleep(min(PROGRESS_S, self._lease / 3))
            now, progress = anyio.current_time(), attempt.progress
            if progress == written and now - renewed < self._lease / 3:
                continue
            try:
                stage, share = progress
                kept = await jobs.beat(database, attempt.job, lease=self._lease, stage=stage, progress=share)
                renewed, written = now, progress
            except RagstoneError:
                kept = now - renewed < self._lease
            if not kept:
                _LOGGER.info("job taken away", extra=attempt.facts)
                attempt.lost = True
                scope.cancel()
                return

    async def _end(self, database: Database, attempt: _Attempt) -> None:
        job, error = attempt.job, attempt.error
        try:
            if error is None:
                ended = await jobs.finish(database, job, failures=attempt.failures)
            else:
                ended = await jobs.fail(database, job, error)
        except RagstoneError as failure:
            # The lease runs out, and whoever takes it next finds what is done already.
            _LOGGER.warning("job's end not written", extra={**attempt.facts, "code": failure.code})
            return
        if not ended:
            _LOGGER.info("job taken away", extra=attempt.facts)
        elif error is None:
            _LOGGER.info("job done", extra=attempt.facts)
        elif isinstance(error, RagstoneError):
            _LOGGER.warning("job failed", extra={**attempt.facts, "code": error.code})
        else:
            _LOGGER.error("job failed", extra=attempt.facts, exc_info=error)

    async def _given_back(self, database: Database, job: Job) -> None:
        try:
            await jobs.give_back(database, job)
        except RagstoneError as error:
            _LOGGER.warning("job not given back", extra={"job_id": job.job_id, "code": error.code})

    async def _do(self, database: Database, attempt: _Attempt) -> None:
        job = attempt.job
        if not await jobs.start(database, job):
            raise Conflict("jobs.taken", job_id=job.job_id)
        settings = await self._settings_of(database, job.base_id, self._parts.settings)
        if job.kind == "reindex":
            await self._reindex(attempt, settings)
        else:
            await self._index(attempt, settings)

    async def _index(self, attempt: _Attempt, settings: Settings) -> None:
        base_id = attempt.job.base_id
        attempt.at("load")
        blob = await self._read_blob(self._parts, attempt.job)
        attempt.at("parse")
        rebuild = await self._parts.rebuild(settings=settings)
        store, embedder = rebuild.store.guarded(attempt.guard), rebuild.embedder
        await store.generations.bind(
            base_id, embedder.identity, embedder.dimension, settings=rebuild.settings
        )
        pipeline = await self._parts.ingest(self._concurrency, settings=settings)
        pipeline = replace(pipeline, store=store, split=attempt.counting(pipeline.splitter()))
        result = await pipeline.run(blob, base_id=base_id, on_event=attempt.on_event)
        whole = next(file for file in result.files if file.uri == blob.uri)
        if whole.error is not None:
            raise whole.error
        if whole.status != "unchanged":
            attempt.failures = [_failure(file) for file in result.files if file.error is not None]

    async def _reindex(self, attempt: _Attempt, settings: Settings) -> None:
        attempt.at("build")
        rebuild = await self._parts.rebuild(attempt.on_event, settings=settings)
        if await rebuild.store.generations.active(attempt.job.base_id) is None:
            return  # without documents; the first will be made as the settings now say
        await replace(rebuild, store=rebuild.store.guarded(attempt.guard)).run(attempt.job.base_id)


class _Attempt:
    """A job under way: how far it is, and how it went."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._began = anyio.current_time()
        self.progress = ("", 0.0)
        self.lost = False
        self.error: Exception | None = None
        self.failures: Sequence[Mapping[str, object]] | None = None
        self._all = self._done = 0

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        job = self.job
        return {
            "job_id": job.job_id,
            "kind": job.kind,
            "base_id": job.base_id,
            "document_id": job.document_id,
            "attempt": job.attempts,
            "seconds": round(anyio.current_time() - self._began, 3),
        }

    def at(self, stage: str, share: float = 0.0) -> None:
        self.progress = (stage, share)

    async def guard(self, connection: Connection) -> None:
        """Raises Conflict when the job is no longer ours; else it stays so for the transaction."""
        if not await jobs.holds(connection, self.job):
            raise Conflict("jobs.taken", job_id=self.job.job_id)

    def counting(self, split: Splitter) -> Splitter:
        """The splitter, and how many chunks there are to embed."""

        def counted(document: Document) -> list[Chunk]:
            chunks = split(document)
            self._all += len(chunks)
            return chunks

        return counted

    def on_event(self, event: ReindexEvent) -> None:
        match event:
            case PagesRead(done=done, pages=pages):
                self.at("parse", done / max(pages, 1))
            case ChunksEmbedded(chunks=chunks) if self.job.kind == "index":
                self._done += chunks
                self.at("embed", self._done / max(self._all, 1))
            case ToBuild(documents=documents):
                self._done, self._all = 0, documents
            case FileResult() if self.job.kind == "reindex":
                self._done += 1
                self.at("build", self._done / max(self._all, 1))
            case _:
                pass


def _failure(file: FileResult) -> Mapping[str, object]:
    assert file.error is not None
    code, values = jobs.described(file.error)
    return {"uri": file.uri, "name": file.name, "code": code, "values": values}
