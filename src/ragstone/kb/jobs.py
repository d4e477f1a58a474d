"""Jobs: files to index, bases to index anew. The table is the one truth about them.

A job is queued in the transaction that makes it necessary, taken by one worker at a time
under a lease, and ends done, dead (it failed for good) or cancelled. A document has one
job at most that is queued or running, and of those that ended only the last.

Locks are always taken in this order: file, job, rows of the library.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from psycopg.errors import ForeignKeyViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from ragstone.errors import BaseNotFound, Conflict, NotFound, RagstoneError, StoreFull, Transient
from ragstone.kb import audit, rows
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.kb.plain import plain_text
from ragstone.metadata import storable
from ragstone.postgres.pool import Connection, Database

JobKind: TypeAlias = Literal["index", "reindex"]
JobState: TypeAlias = Literal["queued", "running", "done", "dead", "cancelled"]

MAX_ATTEMPTS = 4
RETRY_AFTER_S = (2.0, 10.0, 60.0)
"""Before the second, third and fourth attempt."""
FULL_S = 60.0
"""How long a job waits that met a full disk."""
MAX_VALUE = 500
"""Characters kept of each value that an error's sentence names."""

_STATUS: Mapping[str, str] = {"done": "ready", "queued": "pending", "dead": "failed", "cancelled": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that was taken. `worker_id` is new each time, so that no earlier holder passes for this one."""

    job_id: str
    kind: JobKind
    base_id: str
    document_id: str | None
    attempts: int
    worker_id: str

    @property
    def held(self) -> Mapping[str, object]:
        return {"job_id": self.job_id, "worker_id": self.worker_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as people see it; `name` is the file's. `progress` is the share of `stage` that is done."""

    job_id: str
    kind: JobKind
    base_id: str
    document_id: str | None
    name: str | None
    state: JobState
    stage: str
    progress: float
    attempts: int
    error_code: str | None
    error_values: Mapping[str, Any] | None
    run_after: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


# --- making jobs -------------------------------------------------------------------


async def enqueue_index(connection: Connection, document_ids: Sequence[str]) -> list[str]:
    """Queue the reading of files in the caller's transaction; the jobs. Wake workers once it is committed.

    One that is queued already is due at once; one that is running begins anew when it ends.
    The files must be locked or written before, in the same transaction; one that is gone is
    passed over.
    """
    values = {"document_ids": list(document_ids)}
    await connection.execute(QUERIES["queue_files"], values)
    await connection.execute(QUERIES["forget_index"], values)
    return [row[0] for row in await (await connection.execute(QUERIES["enqueue_index"], values)).fetchall()]


async def enqueue_reindex(connection: Connection, base_id: str) -> str:
    """As `enqueue_index`, for building a base anew.

    Raises:
        BaseNotFound: the base has just been removed.
    """
    values = {"base_id": base_id}
    await connection.execute(QUERIES["forget_reindex"], values)
    try:
        row = await (await connection.execute(QUERIES["enqueue_reindex"], values)).fetchone()
    except ForeignKeyViolation as error:
        raise BaseNotFound("access.base", base_id=base_id) from error
    assert row is not None
    return cast(str, row[0])


async def restart(connection: Connection, document_id: str) -> None:
    """Let a running job of a file, which is locked, begin anew: what it has read is not so any more."""
    if (await connection.execute(QUERIES["restart_job"], {"document_id": document_id})).rowcount:
        await connection.execute(QUERIES["queue_files"], {"document_ids": [document_id]})


async def cancel_documents(connection: Connection, document_ids: Sequence[str]) -> int:
    """End and delete the jobs of documents whose files go in the same transaction; how many.

    Lock the files before it, and look for the rows of the library after it: what a running
    job is writing at this moment is waited for, and it writes nothing afterwards.
    """
    values = {"document_ids": list(document_ids)}
    return (await connection.execute(QUERIES["delete_jobs"], values)).rowcount


# --- a worker's side ---------------------------------------------------------------


async def take(database: Database, *, worker: str, lease: float) -> Job | None:
    """The job that is due longest, held for `lease` seconds; None when none is due."""
    values = {"worker_id": f"{worker}/{secrets.token_hex(6)}", "lease": lease}
    async with (
        database.connection() as connection,
        connection.cursor(row_factory=class_row(Job)) as cursor,
    ):
        return await (await cursor.execute(QUERIES["take_job"], values)).fetchone()


async def due_in(database: Database) -> float | None:
    """Seconds until the next queued job is due, negative if it is; None when none is queued."""
    async with database.connection() as connection:
        row = await (await connection.execute(QUERIES["next_job"])).fetchone()
    return None if row is None else row[0]


async def start(database: Database, job: Job) -> bool:
    """Say that the file is being processed. False when the job is no longer ours or the file is gone."""
    values = {"document_id": job.document_id}
    async with database.transaction() as connection:
        if job.document_id is not None and not await _found(connection, "lock_file", values):
            return False
        if not await holds(connection, job):
            return False
        if job.document_id is not None:
            await connection.execute(QUERIES["start_file"], values)
    return True


async def holds(connection: Connection, job: Job) -> bool:
    """Whether the job is still ours; if so it stays so until the transaction ends."""
    return await _found(connection, "hold_job", job.held)


async def beat(database: Database, job: Job, *, lease: float, stage: str, progress: float) -> bool:
    """Renew the lease and say how far the work is. False when the job is no longer ours."""
    values = {**job.held, "lease": lease, "stage": stage, "progress": min(max(progress, 0.0), 1.0)}
    async with database.connection() as connection:
        return (await connection.execute(QUERIES["beat_job"], values)).rowcount > 0


async def finish(
    database: Database, job: Job, *, failures: Sequence[Mapping[str, object]] | None = None
) -> bool:
    """The job is done and its file ready. False when it was no longer ours, and nothing changed.

    `failures` are members of a container that could not be read: uri, name, code, values;
    None where they are as they were.
    """
    return await _end(database, job, "done", failures=failures)


async def fail(database: Database, job: Job, error: Exception) -> bool:
    """What failed for a reason that may pass is queued again, up to MAX_ATTEMPTS; else it is dead.

    A full disk is nobody's fault but the machine's: the job waits, and the attempt does not count.
    False when the job was no longer ours, and nothing changed.
    """
    if isinstance(error, StoreFull):
        return await _end(database, job, "queued", error=error, delay=FULL_S, uncounted=-1)
    passing = isinstance(error, Transient) or not isinstance(error, RagstoneError)
    if passing and job.attempts < MAX_ATTEMPTS:
        return await _end(database, job, "queued", error=error, delay=RETRY_AFTER_S[job.attempts - 1])
    return await _end(database, job, "dead", error=error)


async def give_back(database: Database, job: Job) -> bool:
    """Queue it again as if it had not been taken; for a worker that stops."""
    return await _end(database, job, "queued", uncounted=-1)


async def sweep(database: Database, *, at_work: Collection[str] = ()) -> int:
    """Free what workers held that have not been heard of; how many jobs.

    `at_work` are the `Job.worker_id` of the one that asks: it lives, however late it renews them.
    One that was lost MAX_ATTEMPTS times is dead: it may be what kills them.
    """
    async with (
        database.connection() as connection,
        connection.cursor(row_factory=class_row(Job)) as cursor,
    ):
        expired = await (await cursor.execute(QUERIES["expired_jobs"], {"at_work": list(at_work)})).fetchall()
    count = 0
    for job in expired:
        lost = Conflict("jobs.lost", attempts=job.attempts)
        state: JobState = "queued" if job.attempts < MAX_ATTEMPTS else "dead"
        count += await _end(database, job, state, error=lost, expired=True)
    return count


async def _end(
    database: Database,
    job: Job,
    state: JobState,
    *,
    error: Exception | None = None,
    delay: float = 0,
    uncounted: int = 0,
    failures: Sequence[Mapping[str, object]] | None = None,
    expired: bool = False,
) -> bool:
    """The end of an attempt and what it makes of the file, in one transaction."""
    code, error_values = (None, None) if error is None else described(error)
    values = {
        **job.held,
        "state": state,
        "delay": delay,
        "uncounted": uncounted,
        "error_code": code,
        "error_values": None if error_values is None else Jsonb(error_values),
    }
    async with database.transaction() as connection:
        if job.document_id is not None:
            await _found(connection, "lock_file", {"document_id": job.document_id})
        if expired and not await _found(connection, "lock_expired", job.held):
            return False
        row = await (await connection.execute(QUERIES["end_job"], values)).fetchone()
        if row is None:
            return False
        if job.document_id is not None:
            kept = None if failures is None else Jsonb(list(failures))
            await _end_file(connection, job.document_id, cast(str, row[0]), values | {"failures": kept})
    return True


async def _end_file(
    connection: Connection, document_id: str, state: str, values: Mapping[str, object]
) -> None:
    """A file that waits for another attempt is pending; why it waits is said by its job."""
    told = {**values, "document_id": document_id, "status": _STATUS[state]}
    if state in ("queued", "done"):
        told |= {"error_code": None, "error_values": None}
    await connection.execute(QUERIES["end_file"], told)


async def _found(connection: Connection, query: str, values: Mapping[str, object]) -> bool:
    return await (await connection.execute(QUERIES[query], values)).fetchone() is not None


def described(error: Exception) -> tuple[str, dict[str, object]]:
    """What an error is called and the values of its sentence, as they are stored."""
    if not isinstance(error, RagstoneError):
        return "jobs.unexpected", {"kind": type(error).__name__}
    return error.code, {name: _kept(value) for name, value in error.values.items()}


def _kept(value: object) -> object:
    return value if isinstance(value, bool | int | None) else plain_text(str(value)[:MAX_VALUE])


# --- a person's side ---------------------------------------------------------------


async def listing(
    database: Database,
    caller: Caller,
    *,
    base_id: str | None = None,
    state: JobState | None = None,
    limit: int = 50,
    offset: int = 0,
) -> tuple[list[JobInfo], int]:
    """Jobs of the caller's bases, the newest first, and how many there are in all.

    Raises:
        Forbidden: not for this caller.
    """
    caller.require("editor")
    values = _seen(caller, base_id) | {"state": state}
    return await rows.page(database, JobInfo, "list_jobs", values, limit=limit, offset=offset)


async def one(database: Database, caller: Caller, job_id: str) -> JobInfo:
    """Raises Forbidden; NotFound, also for one of a base that the caller may not see."""
    caller.require("editor")
    if not storable(job_id):
        raise NotFound("jobs.not_found", job_id=repr(job_id))
    values = _seen(caller) | {"job_id": job_id, "limit": 1, "offset": 0}
    async with database.connection() as connection:
        found = await rows.read(connection, JobInfo, "list_jobs", values)
    if not found:
        raise NotFound("jobs.not_found", job_id=job_id)
    return found[0]


def _seen(caller: Caller, base_id: str | None = None) -> dict[str, object]:
    bases = None if caller.bases is None else sorted(caller.bases)
    if base_id is not None and not storable(base_id):
        bases, base_id = [], None
    return {"bases": bases, "job_id": None, "base_id": base_id, "state": None}


async def cancel(database: Database, caller: Caller, job_id: str) -> JobInfo:
    """Stop a job; its file is failed and can be tried again. What answered before goes on.

    Raises:
        Forbidden, NotFound: not for this caller, or no such job. Conflict: it has ended already.
    """
    job = await one(database, caller, job_id)
    async with database.transaction() as connection:
        if job.document_id is not None:
            await _found(connection, "lock_file", {"document_id": job.document_id})
        if not (await connection.execute(QUERIES["cancel_job"], {"job_id": job_id})).rowcount:
            raise Conflict("jobs.ended", job_id=job_id)
        if job.document_id is not None:
            code, values = described(Conflict("jobs.cancelled"))
            told = {"error_code": code, "error_values": Jsonb(values), "failures": None}
            await _end_file(connection, job.document_id, "cancelled", told)
        await audit.record(connection, caller, "job.cancel", base_id=job.base_id, subject=job_id)
    return await one(database, caller, job_id)


async def reindex(database: Database, caller: Caller, base_id: str) -> JobInfo:
    """Queue building a base anew, or find what is queued or running already.

    Raises:
        Forbidden, BaseNotFound: not for this caller, or no such base.
    """
    caller.require("editor")
    caller.check_bases([base_id])
    if not storable(base_id):
        raise BaseNotFound("access.base", base_id=base_id)
    async with database.transaction() as connection:
        job_id = await enqueue_reindex(connection, base_id)
        await audit.record(connection, caller, "base.reindex", base_id=base_id, subject=base_id)
    return await one(database, caller, job_id)


async def replay(
    database: Database, caller: Caller, *, base_id: str | None = None, job_id: str | None = None
) -> list[str]:
    """Queue dead jobs anew: those of a base, or all that the caller may see; the new ids.

    With `job_id` that one, which may also have been cancelled.

    Raises:
        Forbidden, NotFound: not for this caller, or no such job.
        Conflict: it is neither dead nor cancelled.
    """
    caller.require("editor")
    if job_id is not None:
        await one(database, caller, job_id)
    values = _seen(caller, base_id) | {"job_id": job_id}
    async with database.transaction() as connection:
        dead = await (await connection.execute(QUERIES["replayable_jobs"], values)).fetchall()
        if job_id is not None and not dead:
            raise Conflict("jobs.not_dead", job_id=job_id)
        document_ids = [document_id for _, document_id in dead if document_id is not None]
        await connection.execute(QUERIES["lock_some_files"], {"document_ids": document_ids})
        queued = await enqueue_index(connection, document_ids)
        queued += [await enqueue_reindex(connection, base) for base, of_file in dead if of_file is None]
        if queued:
            await audit.record_each(connection, caller, "job.replay", queued, base_id=base_id)
    return queued
