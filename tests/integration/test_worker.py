"""The worker: documents on their way from an upload to a search, whatever comes between."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import anyio
import pytest

from making import zipped
from ragstone.errors import StoreFull, StoreUnavailable
from ragstone.kb import bases, jobs, removal
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER
from ragstone.kb.jobs import Job
from ragstone.kb.originals import read_blob
from ragstone.kb.readiness import Probe
from ragstone.kb.settings import Settings
from ragstone.testing import FakeEmbedder
from ragstone.types import Blob, DeletionReport, Scope
from working import Gate, application, rows, settled, states, until, upload, working

pytestmark = pytest.mark.anyio

ORCHIDS = "Orchids need shade. Water them once a week."


async def file(app: App) -> tuple[object, ...]:
    return (await rows(app, "SELECT status, error_code FROM files"))[0]


async def found(app: App, words: str) -> list[str]:
    hits = await (await app.store()).search_text(words, scope=Scope(), top_k=10)
    return [hit.chunk.document_id for hit in hits]


async def remove(app: App, base_id: str, document_id: str) -> DeletionReport:
    return await removal.remove(app, OWNER, [document_id], base_id=base_id)


async def left(app: App) -> dict[str, int]:
    names = ("documents", "chunks", "vectors", "generation_documents", "files", "jobs", "blobs")
    return {name: count for name in names if (count := len(await rows(app, f"SELECT 1 FROM {name}")))}


async def test_a33_a85_an_upload_is_pending_then_processing_then_ready_and_found(
    app: App, base_id: str
) -> None:
    document_id = await upload(app, base_id, ORCHIDS)
    assert await file(app) == ("pending", None)
    gate = Gate()
    async with working(app, read=gate):
        await gate.wait()
        assert await file(app) == ("processing", None)
        await until(lambda: stage(app, "load"))
        gate.open.set()
        await settled(app)
    assert await file(app) == ("ready", None)
    assert await found(app, "shade") == [document_id]
    (job,), _ = await jobs.listing(await app.database(), OWNER)
    assert (job.state, job.progress, job.attempts) == ("done", 1.0, 1)


async def stage(app: App, name: str) -> bool:
    return (name,) in await rows(app, "SELECT stage FROM jobs")


async def test_a85_a_file_that_cannot_be_read_fails_with_its_reason_and_the_others_go_on(
    app: App, base_id: str
) -> None:
    await upload(app, base_id, b"%PDF-1.7 this is no more than a beginning", "broken.pdf")
    ready = await upload(app, base_id, ORCHIDS)
    async with working(app):
        await settled(app)
    ended = dict(await rows(app, "SELECT name, (status, error_code)::text FROM files"))
    assert ended["orchids.txt"] == "(ready,)"
    assert ended["broken.pdf"].startswith("(failed,parse.")
    assert await found(app, "shade") == [ready]


async def test_a_member_that_cannot_be_read_is_named_and_the_rest_is_there(app: App, base_id: str) -> None:
    held = {"good.txt": ORCHIDS.encode(), "bad.pdf": b"%PDF-1.7 no more than a beginning"}
    await upload(app, base_id, zipped(held), "box.zip")
    async with working(app):
        await settled(app)
    assert await file(app) == ("ready", None)
    ((failures,),) = await rows(app, "SELECT failures FROM files")
    assert [(item["name"], item["code"].partition(".")[0]) for item in failures] == [("bad.pdf", "parse")]
    assert len(await found(app, "shade")) == 1


async def test_a_job_that_meets_a_full_disk_waits_and_the_attempt_does_not_count(
    app: App, base_id: str
) -> None:
    """Until then `/readyz` says degraded, without a path of the machine."""

    async def full(app: App, job: Job) -> Blob:
        raise StoreFull("blob.disk_full")

    await upload(app, base_id, ORCHIDS)

    async def waits() -> bool:
        return await rows(app, "SELECT error_code FROM jobs WHERE state = 'queued'") == [("blob.disk_full",)]

    async with working(app, read=full):
        await until(waits)
    ((attempts, later),) = await rows(app, "SELECT attempts, run_after > now() FROM jobs")
    assert (attempts, later) == (0, True)
    ready = await Probe(app)()
    assert (ready.status, ready.parts["blobs"].code) == ("degraded", "blob.no_room")
    await rows(app, "UPDATE jobs SET run_after = now()")
    async with working(app):
        await settled(app)
    assert await file(app) == ("ready", None)
    assert (await Probe(app)()).parts["blobs"].state == "ok"


@pytest.mark.parametrize("content", [ORCHIDS.encode(), zipped({"a.txt": b"Orchids.", "b.txt": b"Ferns."})])
async def test_c2_c4_deleted_while_it_is_indexed_nothing_is_left(
    app: App, base_id: str, content: bytes
) -> None:
    document_id = await upload(app, base_id, content, "box.zip" if content[:2] == b"PK" else "a.txt")
    gate = Gate()
    async with working(app, read=gate):
        await gate.wait()
        report = await remove(app, base_id, document_id)
        assert (report.rows["files"], report.rows["jobs"]) == (1, 1)
        gate.open.set()
        later = await upload(app, base_id, "Ferns like it wet.", "ferns.txt")
        await settled(app)
    assert await found(app, "orchids") == []
    assert await found(app, "wet") == [later]
    assert {name: count for name, count in (await left(app)).items() if count > 1} == {}


async def test_c2_c4_deleted_between_any_two_writes_of_a_container_nothing_is_left(
    app: App, base_id: str
) -> None:
    """Deletions fall where they like: before, between and after the members are stored."""
    members = {f"{n}.txt": f"Orchid number {n} needs shade.".encode() for n in range(12)}
    async with working(app):
        for pause in range(8):
            document_id = await upload(app, base_id, zipped(members), "box.zip", uri=f"box/{pause}")

            async def begun(count: int = 2 * pause) -> bool:
                return len(await rows(app, "SELECT 1 FROM documents")) >= min(count, 13)

            await until(begun)
            await remove(app, base_id, document_id)
            await settled(app)
            assert await left(app) == {}


async def test_w11_a_worker_that_lost_its_lease_writes_nothing_and_another_does_the_work(
    app: App, conninfo: str, base_id: str, tmp_path: Path
) -> None:
    document_id = await upload(app, base_id, ORCHIDS)
    late = Gate()
    async with working(app, read=late, concurrency=1), application(conninfo, tmp_path) as other:
        await late.wait()
        await rows(app, "UPDATE jobs SET lease_until = now() - interval '1 second'")
        now = Gate()
        async with working(other, read=now, concurrency=1):
            await now.wait()
            late.open.set()
            # The late one is done with this job when it is ready for the next.
            await upload(app, base_id, "Ferns like it wet.", "ferns.txt")
            await until(lambda: ready(app, "ferns.txt"))
            assert await found(app, "shade") == []
            assert await rows(app, "SELECT status FROM files WHERE name = 'orchids.txt'") == [("processing",)]
            now.open.set()
            await settled(other)
    assert await found(app, "shade") == [document_id]
    assert [job.attempts for job in (*late.jobs[:1], *now.jobs[:1])] == [1, 2]


async def test_w11_a_worker_that_was_too_busy_to_renew_its_lease_keeps_its_job(
    conninfo: str, tmp_path: Path
) -> None:
    """A file of 50 MB can hold the interpreter for longer than a lease; then its own sweep comes first."""
    gate = Gate()
    # Swept every 5 seconds, renewed every 6.
    async with application(conninfo, tmp_path, lease_seconds=18.0) as app:

        async def reported() -> bool:
            return await rows(app, "SELECT 1 FROM jobs WHERE stage = 'load'") != []

        async def renewed() -> bool:
            return await rows(app, "SELECT 1 FROM jobs WHERE lease_until > now()") != []

        base_id = await bases.ensure(await app.database(), "papers")
        await upload(app, base_id, ORCHIDS)
        async with working(app, read=gate):
            with anyio.fail_after(30):
                await gate.reached.wait()
            await until(reported)
            await rows(app, "UPDATE jobs SET lease_until = now() - interval '1 second'")
            await until(renewed)
            gate.open.set()
            await settled(app)
        assert [job.attempts for job in gate.jobs] == [1]
        assert await ready(app, "orchids.txt")


async def ready(app: App, name: str) -> bool:
    return await rows(app, "SELECT status FROM files WHERE name = %s", name) == [("ready",)]


async def test_two_workers_never_have_the_same_document(
    app: App, conninfo: str, base_id: str, tmp_path: Path
) -> None:
    await upload(app, base_id, "First.", uri="notes/1")
    gate = Gate()
    async with (
        working(app, read=gate),
        application(conninfo, tmp_path) as other,
        working(other, read=gate),
    ):
        await gate.wait()
        for number in range(5):
            await upload(app, base_id, f"Version {number}.", uri="notes/1")
        await upload(app, base_id, "Ferns like it wet.", uri="notes/2")
        await until(lambda: two(gate))
        assert len({job.document_id for job in gate.jobs}) == 2
        gate.open.set()
        await settled(app)
    # The version that was there when the first job began is not the last word.
    assert len(await found(app, "Version 4")) == 1
    assert await found(app, "First") == []


async def two(gate: Gate) -> bool:
    return len(gate.jobs) == 2


async def test_a_poison_file_kills_its_parser_and_fails_alone(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A parser of somebody else's that breaks its process down, as in test_parser_plugins.
    package = tmp_path / "site"
    (package / "poison-1.dist-info").mkdir(parents=True)
    (package / "poison-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: poison\nVersion: 1\n")
    (package / "poison-1.dist-info/entry_points.txt").write_text(
        "[ragstone.parsers]\npoison = poison:Parser\n"
    )
    (package / "poison.py").write_text(
        "import os\n"
        "class Parser:\n"
        "    def accepts(self, blob): return b'poison' in blob.data\n"
        "    def parse(self, blob): os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.syspath_prepend(package)
    async with application(conninfo, tmp_path) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        for number in range(3):
            await upload(app, base_id, f"poison {number}", "poison.txt")
            await upload(app, base_id, f"Orchid {number}.", "orchid.txt")
        async with working(app):
            await settled(app)
        ended = await rows(app, "SELECT name, status, count(*) FROM files GROUP BY 1, 2 ORDER BY 1")
        assert ended == [("orchid.txt", "ready", 3), ("poison.txt", "failed", 3)]
        codes = await rows(app, "SELECT DISTINCT error_code FROM files WHERE status = 'failed'")
        assert [code.partition(".")[0] for (code,) in codes] == ["parse"]


async def test_a31_w08_a_base_is_built_anew_while_it_answers(app: App, base_id: str) -> None:
    document_id = await upload(app, base_id, " ".join(f"Orchid {n} needs shade." for n in range(60)))
    wanted = app.settings

    async def settings_of(database: object, base_id: str, settings: Settings) -> Settings:
        return wanted

    async with working(app, settings_of=settings_of):
        await settled(app)
        before = await rows(app, "SELECT chunk_id FROM chunks")
        wanted = dataclasses.replace(wanted, chunk_size=32, chunk_overlap=0)
        job = await jobs.reindex(await app.database(), OWNER, base_id)
        await (await app.wakeup()).notify([job.job_id])
        await until(lambda: answered(app, document_id))
    after = await rows(
        app,
        "SELECT chunk_id FROM chunks JOIN generations USING (generation_id) WHERE state = 'active'",
    )
    assert len(after) > len(before)
    assert (await jobs.one(await app.database(), OWNER, job.job_id)).state == "done"


async def answered(app: App, document_id: str) -> bool:
    """It answers at every moment; whether the jobs have ended."""
    assert set(await found(app, "shade")) == {document_id}
    return not await states(app) & {"queued", "running"}


async def test_a_base_without_documents_is_built_already(app: App, base_id: str) -> None:
    await jobs.reindex(await app.database(), OWNER, base_id)
    async with working(app):
        await settled(app)
    assert await rows(app, "SELECT state, error_code FROM jobs") == [("done", None)]


async def test_the_model_changed_while_a_file_was_read_and_nothing_of_the_old_one_is_stored(
    app: App, base_id: str
) -> None:
    await upload(app, base_id, ORCHIDS)
    async with working(app):
        await settled(app)
    await upload(app, base_id, "Ferns like it wet.", "ferns.txt")
    gate = Gate()
    async with working(app, read=gate):
        await gate.wait()
        # Another process, with a model of its own, builds the base anew.
        rebuild = dataclasses.replace(await app.rebuild(), embedder=FakeEmbedder(identity="other/64"))
        await rebuild.run(base_id)
        gate.open.set()
        await settled(app)
    assert await rows(app, "SELECT status, error_code FROM files WHERE name = 'ferns.txt'") == [
        ("failed", "store.model")
    ]
    assert await found(app, "wet") == []


async def test_a_store_of_originals_that_is_down_for_a_while_costs_a_second_attempt(
    app: App, base_id: str
) -> None:
    await upload(app, base_id, ORCHIDS)
    tries: list[int] = []

    async def read(parts: App, job: Job) -> Blob:
        tries.append(job.attempts)
        if len(tries) == 1:
            raise StoreUnavailable("blob.unreachable", where="s3://x", reason="refused")
        return await read_blob(parts, job)

    async with working(app, read=read):
        await until(lambda: waiting(app))
        assert await file(app) == ("pending", None)
        assert await rows(app, "SELECT error_code FROM jobs") == [("blob.unreachable",)]
        await rows(app, "UPDATE jobs SET run_after = now()")
        await (await app.wakeup()).notify()
        await settled(app)
    assert tries == [1, 2]
    assert await file(app) == ("ready", None)


async def waiting(app: App) -> bool:
    return await rows(app, "SELECT state, attempts FROM jobs") == [("queued", 1)]


async def test_c9_a_stopped_worker_ends_what_runs(app: App, base_id: str) -> None:
    await upload(app, base_id, ORCHIDS)
    gate = Gate()
    async with working(app, read=gate) as worker:
        await gate.wait()
        worker.stop()
        await upload(app, base_id, "Ferns like it wet.", "ferns.txt")
        gate.open.set()
    assert await rows(app, "SELECT name, status FROM files ORDER BY 1") == [
        ("ferns.txt", "pending"),
        ("orchids.txt", "ready"),
    ]


async def test_c9_a_worker_that_is_ended_gives_back_what_it_holds(app: App, base_id: str) -> None:
    await upload(app, base_id, ORCHIDS)
    gate = Gate()
    with anyio.CancelScope() as scope:
        async with working(app, read=gate):
            await gate.wait()
            scope.cancel()
    assert await rows(app, "SELECT state, attempts, worker_id FROM jobs") == [("queued", 0, None)]
    assert await file(app) == ("pending", None)


@pytest.mark.parametrize("ending", ["cancel", "delete"])
async def test_a_job_that_is_taken_away_ends_within_a_part_of_its_lease(
    conninfo: str, tmp_path: Path, ending: str
) -> None:
    """And until then its lease is renewed, again and again."""
    async with application(conninfo, tmp_path, lease_seconds=1.0) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        document_id = await upload(app, base_id, ORCHIDS)
        ended, reached = anyio.Event(), anyio.Event()

        async def read(parts: App, job: Job) -> Blob:
            reached.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
            raise AssertionError

        async with working(app, read=read):
            with anyio.fail_after(30):
                await reached.wait()
                ((first,),) = await rows(app, "SELECT lease_until FROM jobs")

                async def renewed() -> bool:
                    ((lease_until,),) = await rows(app, "SELECT lease_until FROM jobs")
                    return (lease_until - first).total_seconds() > 1.2

                await until(renewed)
                assert not ended.is_set()
                if ending == "delete":
                    await remove(app, base_id, document_id)
                else:
                    await jobs.cancel(await app.database(), OWNER, (await job_ids(app))[0])
                await ended.wait()


async def job_ids(app: App) -> list[str]:
    return [row[0] for row in await rows(app, "SELECT job_id FROM jobs")]
