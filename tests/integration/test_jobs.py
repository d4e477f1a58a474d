"""Jobs: the table says what is to be done, who does it and how it ended."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import anyio
import pytest

from ragstone.errors import BaseNotFound, Conflict, Forbidden, NoText, NotFound, ProviderUnavailable
from ragstone.kb import audit, jobs
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, Caller
from ragstone.kb.jobs import MAX_ATTEMPTS, Job
from ragstone.postgres.migrate import migrate, prepare_server
from ragstone.postgres.pool import Database
from working import rows, states, upload

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(app: App) -> Database:
    return await app.database()


async def taken(database: Database, lease: float = 30.0) -> Job:
    job = await jobs.take(database, worker="w", lease=lease)
    assert job is not None
    return job


async def due_now(app: App) -> None:
    await rows(app, "UPDATE jobs SET run_after = now() WHERE state = 'queued'")


async def file(app: App) -> tuple[object, ...]:
    return (await rows(app, "SELECT status, error_code, error_values FROM files"))[0]


async def test_w10_a_job_is_queued_with_the_transaction_that_needs_it_or_not_at_all(
    app: App, database: Database, base_id: str
) -> None:
    async def half_done() -> None:
        async with database.transaction() as connection:
            await jobs.enqueue_reindex(connection, base_id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await half_done()
    assert await rows(app, "SELECT 1 FROM jobs") == []


async def test_a_document_has_one_job_and_what_is_asked_while_it_runs_is_done_afterwards(
    app: App, database: Database, base_id: str
) -> None:
    document_id = await upload(app, base_id, "Orchids need shade.")

    async def ask_again() -> str:
        async with database.transaction() as connection:
            (queued,) = await jobs.enqueue_index(connection, [document_id])
            return queued

    job_id = (await rows(app, "SELECT job_id FROM jobs"))[0][0]
    assert await ask_again() == job_id
    job = await taken(database)
    assert job.job_id == job_id
    assert await jobs.start(database, job)
    assert (await file(app))[0] == "processing"
    assert await ask_again() == job_id
    assert await jobs.take(database, worker="other", lease=30) is None
    assert await jobs.finish(database, job)
    assert await file(app) == ("pending", None, None)
    again = await taken(database)
    assert (again.job_id, again.attempts) == (job_id, 1)
    assert await jobs.finish(database, again)
    assert await file(app) == ("ready", None, None)


async def test_ids_of_jobs_say_nothing_of_other_jobs_also_of_those_queued_before(
    conninfo: str, tmp_path: Path
) -> None:
    """What was queued under a number by an earlier version gets a random id too, and keeps its turn."""
    folder = files("ragstone.kb") / "migrations"
    first = "0001_application.sql"
    (tmp_path / first).write_bytes((folder / first).read_bytes())
    async with await Database.open(conninfo) as database, database.connection() as connection:
        await prepare_server(connection)
        await migrate(connection, "library", files("ragstone.store") / "migrations")
        await migrate(connection, "kb", tmp_path)
        names = [f"base {n}" for n in range(20)]
        await connection.execute(
            "INSERT INTO bases (base_id, name) SELECT n, n FROM unnest(%s::text[]) n", [names]
        )
        await connection.execute(
            "INSERT INTO jobs (kind, base_id) SELECT 'reindex', n FROM unnest(%s::text[]) n", [names]
        )
        await connection.commit()
        await migrate(connection, "kb", folder)
        await connection.commit()
        taken = [job async for job in _each(database)]
    assert [job.base_id for job in taken] == names
    assert len({job.job_id for job in taken}) == 20
    assert all(re.fullmatch("[0-9a-f]{32}", job.job_id) for job in taken)


async def _each(database: Database) -> AsyncIterator[jobs.Job]:
    while (job := await jobs.take(database, worker="w", lease=30)) is not None:
        yield job


async def test_w11_many_takers_get_each_job_once(app: App, database: Database, base_id: str) -> None:
    for number in range(20):
        await upload(app, base_id, f"Orchid {number}.", wake=False)
    found: list[str] = []

    async def take_all() -> None:
        while (job := await jobs.take(database, worker="w", lease=30)) is not None:
            found.append(job.job_id)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(take_all)
    assert sorted(found) == [row[0] for row in await rows(app, "SELECT job_id FROM jobs ORDER BY 1")]


async def test_w11_what_may_pass_is_tried_again_later_and_later_and_then_is_dead(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    error = ProviderUnavailable("store.generation_busy")
    waits: list[float] = []
    for _ in range(MAX_ATTEMPTS - 1):
        assert await jobs.fail(database, await taken(database), error)
        assert await jobs.take(database, worker="w", lease=30) is None
        assert (await file(app))[0] == "pending"
        waits.append(await jobs.due_in(database) or math.nan)
        await due_now(app)
    assert waits == sorted(waits)
    assert waits[0] > 1
    assert await jobs.fail(database, await taken(database), error)
    assert await states(app) == {"dead"}
    assert await file(app) == ("failed", "store.generation_busy", {})


async def test_c10_a_file_that_cannot_be_read_is_dead_at_once_and_the_reason_leaves_with_the_next_try(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    hostile = NoText("ingest.no_text", name="a\0b\ud800" + "x" * 10_000)
    assert await jobs.fail(database, await taken(database), hostile)
    status, code, values = await file(app)
    assert (status, code) == ("failed", "ingest.no_text")
    assert isinstance(values, dict)
    assert len(str(values["name"])) == jobs.MAX_VALUE
    (dead,), total = await jobs.listing(database, OWNER, state="dead")
    assert (total, dead.error_code, dead.name, dead.attempts) == (1, "ingest.no_text", "orchids.txt", 1)
    (job_id,) = await jobs.replay(database, OWNER)
    assert await file(app) == ("pending", None, None)
    assert await jobs.finish(database, await taken(database))
    job = await jobs.one(database, OWNER, job_id)
    assert (job.state, job.error_code, job.progress) == ("done", None, 1.0)
    assert (await jobs.listing(database, OWNER))[1] == 1
    assert await jobs.listing(database, OWNER, offset=5) == ([], 1)
    done = [entry.action for entry in (await audit.listing(database, OWNER, limit=9))[0]]
    assert done == ["job.replay", "document.upload"]
    with pytest.raises(Conflict):
        await jobs.replay(database, OWNER, job_id=job_id)


async def test_an_unexpected_error_says_its_kind_and_nothing_of_its_text(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    assert await jobs.fail(database, await taken(database), ValueError("a secret"))
    (row,) = await rows(app, "SELECT state, error_code, error_values FROM jobs")
    assert row == ("queued", "jobs.unexpected", {"kind": "ValueError"})


async def test_w11_c9_what_a_dead_worker_held_is_free_again_and_its_late_words_count_nothing(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    alive = await taken(database)
    assert await jobs.sweep(database) == 0
    await rows(app, "UPDATE jobs SET lease_until = now() - interval '1 second'")
    assert await jobs.start(database, alive)
    assert await jobs.sweep(database, at_work=[alive.worker_id]) == 0
    assert await jobs.sweep(database) == 1
    assert (await file(app))[0] == "pending"
    now = await taken(database)
    assert (now.job_id, now.attempts) == (alive.job_id, 2)
    assert not await jobs.start(database, alive)
    assert not await jobs.beat(database, alive, lease=30, stage="embed", progress=0.5)
    assert not await jobs.finish(database, alive)
    assert not await jobs.fail(database, alive, ValueError())
    assert not await jobs.give_back(database, alive)
    assert await jobs.beat(database, now, lease=30, stage="embed", progress=0.5)
    assert await jobs.finish(database, now)


async def test_a_job_that_loses_its_worker_again_and_again_is_dead(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    for _ in range(MAX_ATTEMPTS):
        await taken(database, lease=0.0)
        assert await jobs.sweep(database) == 1
    assert await jobs.take(database, worker="w", lease=30) is None
    assert await file(app) == ("failed", "jobs.lost", {"attempts": MAX_ATTEMPTS})


async def test_a_job_given_back_has_not_been_tried(app: App, database: Database, base_id: str) -> None:
    await upload(app, base_id, "Orchids need shade.")
    assert await jobs.give_back(database, await taken(database))
    assert (await taken(database)).attempts == 1


async def test_a_cancelled_job_ends_and_its_file_can_be_tried_again(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    job = await taken(database)
    assert (await jobs.cancel(database, OWNER, job.job_id)).state == "cancelled"
    assert await file(app) == ("failed", "jobs.cancelled", {})
    assert not await jobs.finish(database, job)
    with pytest.raises(Conflict):
        await jobs.cancel(database, OWNER, job.job_id)


async def test_jobs_of_bases_that_a_key_may_not_see_are_not_there(
    app: App, database: Database, base_id: str
) -> None:
    await upload(app, base_id, "Orchids need shade.")
    job = await taken(database)
    assert await jobs.fail(database, job, NoText("ingest.no_text", name="x"))
    with pytest.raises(Forbidden):
        await jobs.listing(database, Caller(key_id="k", role="reader"))
    stranger = Caller(key_id="k", role="editor", bases=frozenset({"other"}))
    assert await jobs.listing(database, stranger) == ([], 0)
    assert await jobs.listing(database, OWNER, base_id="no\0where") == ([], 0)
    assert await jobs.replay(database, stranger) == []
    for call in (jobs.one, jobs.cancel):
        with pytest.raises(NotFound):
            await call(database, stranger, job.job_id)
    with pytest.raises(NotFound):
        await jobs.replay(database, stranger, job_id=job.job_id)
    for caller, wanted in ((stranger, base_id), (OWNER, "nowhere"), (OWNER, "no\0where")):
        with pytest.raises(BaseNotFound):
            await jobs.reindex(database, caller, wanted)


async def test_c45_uploads_and_ends_of_jobs_of_one_document_never_wait_for_each_other_in_a_circle(
    app: App, database: Database, base_id: str
) -> None:
    """Also C45: nothing is locked against readers, and no writer gets an error for another."""
    document_id = await upload(app, base_id, "Orchids need shade.", uri="notes/1")

    async def put(writer: int) -> None:
        for number in range(15):
            await upload(app, base_id, f"Orchids {writer} {number}.", uri="notes/1", wake=False)

    async def work() -> None:
        for _ in range(40):
            job = await jobs.take(database, worker="w", lease=30)
            if job is not None and await jobs.start(database, job):
                assert await jobs.finish(database, job)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for writer in range(3):
                tasks.start_soon(put, writer)
                tasks.start_soon(work)
    await work()
    assert await rows(app, "SELECT document_id, status, version FROM files") == [(document_id, "ready", 46)]
