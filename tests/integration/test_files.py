"""Documents of the application on the functions of `ragstone.kb`: listed, edited, deleted, checked."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest

from ragstone.errors import BaseNotFound, Conflict, Forbidden, InputError, NotFound
from ragstone.filters import parse
from ragstone.kb import (
    base_settings,
    bases,
    catalog,
    files,
    jobs,
    orphans,
    passages,
    removal,
    statistics,
    uploads,
)
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, Caller
from ragstone.kb.catalog import BaseChanges
from ragstone.kb.deep_check import deep_check
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.jobs import Job
from ragstone.kb.originals import read_blob
from ragstone.kb.uploads import Spool, Target
from ragstone.kb.worker import Worker
from ragstone.messages import render
from ragstone.types import Blob, Scope
from working import rows, settled, until, working

pytestmark = pytest.mark.anyio

ORCHIDS = b"# Orchids\n\nOrchids need shade, and water once a week.\n"
STRANGER = Caller(key_id=None, role="editor", bases=frozenset({"else"}))


async def upload(app: App, base_id: str, name: str, data: bytes = ORCHIDS, **said: Any) -> str:
    async with Spool(app.settings.home / "spool", name=name, limit=10_000_000) as spool:
        await spool.write(data)
        done = await uploads.upload(
            await app.database(), await app.blobs(), OWNER, spool, Target(base_id=base_id, **said)
        )
    return done.document_id


async def work(app: App) -> None:
    """Do all jobs that are due."""
    worker = Worker.over(app, concurrency=2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        await settled(app, seconds=60)
        worker.stop()


async def has(app: App, query: str) -> bool:
    return bool(await rows(app, query))


async def findings(app: App) -> list[str]:
    return [check.name for check in await deep_check(app) if check.status == "failed"]


def archive(**members: str) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for name, text in members.items():
            made.writestr(f"{name}.txt", text)
    return packed.getvalue()


async def test_a87_a88_documents_are_listed_sorted_searched_and_filtered(app: App, base_id: str) -> None:
    database = await app.database()
    await upload(app, base_id, "b Report.txt", b"Two words.", category="plans")
    await upload(app, base_id, "A report.txt", b"Somewhat more than two words.")
    await upload(app, base_id, "broken.pdf", b"%PDF-1.7 nothing", category="plans")
    await work(app)
    await upload(app, base_id, "差旅.md", "差旅报销".encode())

    async def names(**asked: Any) -> list[str]:
        found, total = await files.listing(database, OWNER, base_id, **asked)
        assert "limit" in asked or total == len(found)
        return [info.name for info in found]

    assert await names(sort="name", descending=False) == [
        "A report.txt",
        "b Report.txt",
        "broken.pdf",
        "差旅.md",
    ]
    assert await names(sort="size") == ["A report.txt", "broken.pdf", "差旅.md", "b Report.txt"]
    assert await names(sort="created", descending=False) == [
        "b Report.txt",
        "A report.txt",
        "broken.pdf",
        "差旅.md",
    ]
    assert await names(sort="name", limit=2, offset=2) == ["b Report.txt", "A report.txt"]
    assert sorted(await names(search="ＲＥＰＯＲＴ")) == ["A report.txt", "b Report.txt"]
    assert await names(search="100%") == []
    assert await names(category="plans", statuses=["failed"]) == ["broken.pdf"]
    assert sorted(await names(category="")) == ["A report.txt", "差旅.md"]
    assert await names(statuses=["pending"]) == ["差旅.md"]
    found, total = await files.listing(database, OWNER, base_id, limit=1, offset=9)
    assert (found, total) == ([], 4)
    with pytest.raises(BaseNotFound):
        await files.listing(database, STRANGER, base_id)


async def test_c10_c13_a_failure_is_kept_with_its_reason_and_gone_after_success(
    app: App, base_id: str
) -> None:
    database = await app.database()
    document_id = await upload(app, base_id, "empty.txt", b"  \n ", uri="notes")
    await work(app)
    info = await files.one(database, OWNER, document_id)
    assert (info.status, info.searchable) == ("failed", False)
    assert info.error is not None
    assert info.error.code.endswith("no_text")
    await upload(app, base_id, "notes.txt", b"Now with text.", uri="notes")
    await work(app)
    info = await files.one(database, OWNER, document_id)
    assert (info.status, info.error, info.version, info.chunks) == ("ready", None, 2, 1)


async def test_c11_c12_failed_documents_are_seen_tried_again_and_deleted(app: App, base_id: str) -> None:
    database = await app.database()
    failed = [await upload(app, base_id, f"{n}.pdf", b"%PDF-1.7 nothing" + b"%d" % n) for n in range(3)]
    fine = await upload(app, base_id, "fine.txt")
    waiting, _ = await files.listing(database, OWNER, base_id)
    assert {info.status for info in waiting} == {"pending"}
    assert all(info.progress is not None for info in waiting)
    await work(app)
    with pytest.raises(Conflict, match="has not failed"):
        await files.retry(database, OWNER, fine)
    assert (await files.retry(database, OWNER, failed[0])).status == "pending"
    assert sorted(await files.retry_failed(database, OWNER, base_id)) == sorted(failed[1:])
    assert await files.retry_failed(database, OWNER, base_id) == []
    assert await rows(app, "SELECT count(*) FROM jobs WHERE state = 'queued'") == [(3,)]
    await work(app)
    report = await removal.remove(app, OWNER, failed)
    assert sorted(report.document_ids) == sorted(failed)
    assert {table: report.rows[table] for table in ("files", "jobs", "blobs")} == {
        "files": 3, "jobs": 3, "blobs": 3,
    }  # fmt: skip
    assert await findings(app) == []


async def test_c1_the_earlier_version_answers_until_the_new_one_is_ready(app: App, base_id: str) -> None:
    database, store = await app.database(), await app.store()
    document_id = await upload(app, base_id, "a.txt", b"The pier is number seven.", uri="pier")
    await work(app)
    await upload(app, base_id, "a.txt", b"The pier is number nine.", uri="pier")

    async def found(text: str) -> int:
        return len(await store.search_text(text, scope=Scope(bases=(base_id,)), top_k=5))

    info = await files.one(database, OWNER, document_id)
    assert (info.status, info.searchable, await found("seven"), await found("nine")) == (
        "pending",
        True,
        1,
        0,
    )
    await work(app)
    assert (await found("seven"), await found("nine")) == (0, 1)
    assert await rows(app, "SELECT count(*) FROM documents") == [(1,)]


async def test_c2_c4_deletion_takes_everything_also_members_and_what_is_being_read(
    app: App, base_id: str
) -> None:
    packed = await upload(app, base_id, "all.zip", archive(one="First member.", two="Second member."))
    kept = await upload(app, base_id, "kept.txt")
    other = await upload(app, await bases.ensure(await app.database(), "other"), "kept.txt")
    await work(app)
    members = [
        info for info in (await files.listing(await app.database(), OWNER, base_id))[0] if info.container_uri
    ]
    assert {info.name for info in members} == {"one.txt", "two.txt"}
    report = await removal.remove(app, OWNER, [packed, "unknown", "\x00"])
    assert set(report.document_ids) == {packed, *(info.document_id for info in members)}
    assert report.rows["documents"] == 3
    assert report.rows["blobs"] == 1
    # Bytes that another base has too stay; those that nobody has any more go.
    report = await removal.remove(app, OWNER, [kept])
    assert "blobs" not in report.rows
    report = await removal.remove(app, OWNER, [other])
    assert report.rows["blobs"] == 1
    tables = (
        "documents",
        "chunks",
        "vectors",
        "generation_documents",
        "files",
        "jobs",
        "blobs",
        "blob_holds",
    )
    for table in tables:
        assert await rows(app, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert [name async for name in (await app.blobs()).hashes()] == []


async def test_c4_a_document_that_is_deleted_while_it_is_read_does_not_come_back(
    app: App, base_id: str
) -> None:
    for _ in range(5):
        document_id = await upload(app, base_id, "long.txt", b"Some sentence or other. " * 5_000)
        async with anyio.create_task_group() as tasks:
            worker = Worker.over(app, concurrency=2)
            tasks.start_soon(worker.run)
            await until(lambda: has(app, "SELECT 1 FROM jobs WHERE state = 'running'"), every=0.005)
            await removal.remove(app, OWNER, [document_id])
            worker.stop()
        for table in ("documents", "chunks", "vectors", "files", "jobs", "blobs"):
            assert await rows(app, f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_c45_who_waits_for_a_file_does_not_hold_its_document(app: App, base_id: str) -> None:
    """Else a deletion, which has the file and wants the document, would wait in a circle with it."""
    document_id = await upload(app, base_id, "a.txt")
    await work(app)
    database = await app.database()
    waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with database.connection() as deleting, anyio.create_task_group() as tasks:
        await deleting.execute("SELECT FROM files WHERE document_id = %s FOR UPDATE", [document_id])
        tasks.start_soon(partial(files.text, database, OWNER, document_id, start=0, length=9))
        tasks.start_soon(partial(files.edit, database, OWNER, document_id, category="plans"))
        await until(lambda: has(app, f"SELECT 1 {waiting} HAVING count(*) = 2"))
        await deleting.execute(
            "SELECT FROM documents WHERE document_id = %s FOR UPDATE NOWAIT", [document_id]
        )
        await deleting.rollback()
    info = await files.one(database, OWNER, document_id)
    assert (info.accesses, info.category) == (1, "plans")


async def test_of_two_edits_at_once_the_later_knows_what_the_earlier_left(app: App, base_id: str) -> None:
    document_id = await upload(app, base_id, "a.txt")
    await work(app)
    database = await app.database()
    waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with database.connection() as holding, anyio.create_task_group() as tasks:
        await holding.execute("SELECT FROM files WHERE document_id = %s FOR UPDATE", [document_id])
        for number, metadata in enumerate(({"first": 1}, {"second": 2}), 1):
            tasks.start_soon(partial(files.edit, database, OWNER, document_id, metadata=metadata))
            await until(partial(has, app, f"SELECT 1 {waiting} HAVING count(*) = {number}"))
        await holding.rollback()
    info = await files.one(database, OWNER, document_id)
    assert dict(info.own_metadata) == {"second": 2}
    assert "first" not in info.metadata


async def test_deletion_is_for_editors_within_their_bases(app: App, base_id: str) -> None:
    document_id = await upload(app, base_id, "a.txt")
    with pytest.raises(Forbidden):
        await removal.remove(app, Caller(key_id=None, role="reader"), [document_id])
    assert (await removal.remove(app, STRANGER, [document_id])).document_ids == ()
    with pytest.raises(BaseNotFound):
        await removal.remove(app, STRANGER, [document_id], base_id=base_id)
    with pytest.raises(NotFound):
        await files.one(await app.database(), STRANGER, document_id)
    assert await rows(app, "SELECT count(*) FROM files") == [(1,)]


@pytest.mark.calls_blocking_parts
async def test_the_command_line_deletes_uploads_whole_too(app: App, base_id: str) -> None:
    document_id = await upload(app, base_id, "a.txt")
    await upload(app, base_id, "b.txt", b"Another text.")
    await work(app)
    bases_of = KnowledgeBases(app)
    report = await bases_of.remove(document_id)
    assert (report.rows["files"], report.rows["blobs"], report.rows["chunks"]) == (1, 1, 1)
    proof = await bases_of.verify_deleted(document_id)
    assert proof.complete
    assert set(removal.TABLES) < set(proof.left)
    put_back = (
        "INSERT INTO files (document_id, base_id, uri, name, status) VALUES (%s, %s, 'x', 'x', 'ready')"
    )
    await rows(app, put_back, document_id, base_id)
    await rows(app, "INSERT INTO blobs (blob_hash, size) VALUES (repeat('0', 64), 1)")
    proof = await bases_of.verify_deleted(document_id)
    assert not proof.complete
    assert (proof.left["files"], proof.left["blobs"], proof.left["jobs"]) == (1, 1, 0)
    await bases_of.remove_base("papers")
    assert await orphans.sweep(await app.database(), await app.blobs()) == 1
    assert await rows(app, "SELECT count(*) FROM bases") == [(0,)]
    assert await findings(app) == []


@pytest.mark.calls_blocking_parts
async def test_a_sync_takes_an_uploaded_document_out_whole(app: App, base_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "kept.txt").write_text("Ferns like it wet.")
    await upload(app, base_id, "gone.txt", uri=(folder / "gone.txt").as_uri())
    await work(app)
    result = await KnowledgeBases(app).sync(folder, base="papers")
    assert (result.added, len(result.gone), result.deleted.rows["files"]) == (1, 1, 1)
    for table in ("files", "jobs", "blobs"):
        assert await rows(app, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert await findings(app) == []


async def test_metadata_that_is_edited_while_a_job_reads_the_file_is_not_written_over(
    app: App, base_id: str
) -> None:
    database = await app.database()
    document_id = await upload(app, base_id, "a.txt", metadata={"year": 2023})
    has_read, edited = anyio.Event(), anyio.Event()

    async def read(parts: App, job: Job) -> Blob:
        blob = await read_blob(parts, job)
        has_read.set()
        await edited.wait()
        return blob

    async with working(app, read=read):
        with anyio.fail_after(30):
            await has_read.wait()
        info = await files.edit(database, OWNER, document_id, metadata={"year": 2024})
        assert info.status == "pending"
        await (await app.wakeup()).notify()
        edited.set()
        await settled(app)
    info = await files.one(database, OWNER, document_id)
    assert (info.status, dict(info.own_metadata)) == ("ready", {"year": 2024})
    assert info.metadata["year"] == 2024


async def test_metadata_that_is_edited_is_what_filters_see(app: App, base_id: str) -> None:
    database, store = await app.database(), await app.store()
    document_id = await upload(app, base_id, "a.txt", metadata={"year": 2023, "draft": True})
    await work(app)
    info = await files.edit(
        database, OWNER, document_id, name="b.txt", category=" plans ", metadata={"year": 2024}
    )
    assert (info.name, info.category, dict(info.own_metadata)) == ("b.txt", "plans", {"year": 2024})
    assert "draft" not in info.metadata

    async def found(text: str) -> int:
        scope = Scope(bases=(base_id,), filter=parse(text))
        return len(await store.search_text("orchids", scope=scope, top_k=5))

    assert (await found("year == 2024"), await found("year == 2023"), await found("draft == true")) == (
        1,
        0,
        0,
    )
    for wrong in ({"name": "../a"}, {"name": ""}, {"name": "a\nb"}, {"category": "x" * 65}):
        with pytest.raises(InputError):
            await files.edit(database, OWNER, document_id, **wrong)
    with pytest.raises(Forbidden):
        await files.edit(database, Caller(key_id=None, role="reader"), document_id, name="c.txt")


async def test_documents_of_the_command_line_are_ready_and_can_be_categorised(
    app: App, base_id: str, tmp_path: Path
) -> None:
    (tmp_path / "orchids.md").write_bytes(ORCHIDS)
    await KnowledgeBases(app).add(tmp_path / "orchids.md", base="papers")
    database = await app.database()
    (info,), total = await files.listing(database, OWNER, base_id)
    assert (total, info.status, info.name, info.blob_hash, info.chunks) == (1, "ready", "Orchids", None, 1)
    assert (await files.text(database, OWNER, info.document_id, start=2, length=7)).text == "Orchids"
    edited = await files.edit(database, OWNER, info.document_id, category="plants")
    assert (edited.category, edited.accesses) == ("plants", 1)
    assert await findings(app) == []
    (chunk,), total = await passages.listing(database, OWNER, info.document_id, limit=10, offset=0)
    assert (total, chunk.index, chunk.boxes) == (1, 0, ())


async def test_a89_statistics_count_documents_questions_and_refusals(app: App, base_id: str) -> None:
    database = await app.database()
    await upload(app, base_id, "a.txt", category="plans")
    await upload(app, base_id, "broken.pdf", b"%PDF-1.7 nothing")
    await work(app)
    other = await bases.ensure(database, "other")
    await rows(
        app,
        "INSERT INTO questions (status, answered, total_ms, first_ms, at) VALUES"
        " ('complete', true, 100, 10, now()), ('complete', false, 300, 30, now()),"
        " ('failed', NULL, 50, NULL, now() - interval '40 days') RETURNING 1",
    )
    await rows(
        app,
        "INSERT INTO question_bases SELECT question_id, base_id FROM questions CROSS JOIN bases"
        " WHERE total_ms IN (50, 100) RETURNING 1",
    )
    seen = await statistics.counted(database, OWNER)
    assert (seen.bases, seen.documents, seen.ready, seen.failed, seen.chunks) == (2, 2, 1, 1, 1)
    assert (seen.questions, seen.answered, seen.refused, seen.broken) == (3, 1, 1, 1)
    assert (seen.categories, seen.total_ms_p50) == ({"plans": 1, "": 1}, 100)
    one = await statistics.counted(database, OWNER, base_id=other)
    assert (one.documents, one.questions, one.answered) == (0, 2, 1)
    found, total = await catalog.listing(database, OWNER, sort="documents", descending=True)
    assert total == 2
    assert [(info.name, info.documents, info.questions) for info in found] == [
        ("papers", 2, 2),
        ("other", 0, 2),
    ]
    limited = await statistics.counted(database, replace(STRANGER, bases=frozenset({other})))
    assert (limited.bases, limited.documents, limited.questions) == (1, 0, 2)
    with pytest.raises(BaseNotFound):
        await statistics.counted(database, STRANGER, base_id=base_id)


async def test_bases_have_settings_of_their_own(app: App) -> None:
    database, server = await app.database(), app.settings
    made = await catalog.create(
        database,
        OWNER,
        server,
        name=" Handbook ",
        changes=BaseChanges(description="d", category="HR", settings={"chunk_size": 100, "top_k": 3}),
    )
    assert (made.name, made.description, made.category) == ("Handbook", "d", "HR")
    own = await base_settings.settings_of(database, made.base_id, server)
    assert own == replace(server, chunk_size=100, top_k=3)
    changes = BaseChanges(settings={"chunk_size": None, "min_score": 0.5})
    changed = await catalog.change(database, OWNER, server, made.base_id, changes)
    assert changed.settings == {"top_k": 3, "min_score": 0.5}
    for wrong in ({"chunk_size": 8}, {"chunk_overlap": 300}, {"chunk_parent": 10}, {"home": "/"}):
        with pytest.raises(InputError):
            await catalog.change(database, OWNER, server, made.base_id, BaseChanges(settings=wrong))
    with pytest.raises(Conflict, match="already"):
        await catalog.create(database, OWNER, server, name="Handbook", changes=BaseChanges())
    other = await catalog.create(database, OWNER, server, name="Other", changes=BaseChanges())
    with pytest.raises(Conflict, match="already"):
        await catalog.change(database, OWNER, server, other.base_id, BaseChanges(name="Handbook"))
    with pytest.raises(BaseNotFound):
        await catalog.change(database, OWNER, server, "nowhere", BaseChanges(description="x"))
    with pytest.raises(Forbidden):
        await catalog.create(database, STRANGER, server, name="x", changes=BaseChanges())


async def test_the_splitter_of_a_base_is_the_one_its_documents_are_read_with(app: App) -> None:
    database = await app.database()
    text = b"Some sentence or other that says nothing. " * 100
    counts: list[int] = []
    for size in (None, 50):
        changes = BaseChanges(settings={"chunk_size": size, "chunk_overlap": 0})
        made = await catalog.create(database, OWNER, app.settings, name=f"b{size}", changes=changes)
        document_id = await upload(app, made.base_id, "a.txt", text)
        await work(app)
        counts.append((await files.one(database, OWNER, document_id)).chunks)
    assert counts[1] > 3 * counts[0]


async def test_c9_the_deep_check_finds_what_is_lost_or_left_over(app: App, base_id: str) -> None:
    document_id = await upload(app, base_id, "a.txt")
    await upload(app, base_id, "b.txt", b"Another text.")
    await work(app)
    assert [(check.status, check.key) for check in await deep_check(app)] == [("ok", "doctor.deep_fine")]
    blobs = await app.blobs()
    blob_hash = (await files.one(await app.database(), OWNER, document_id)).blob_hash
    assert blob_hash is not None
    await blobs.drop(blob_hash)
    await blobs.put("ab" * 32, b"stray")
    for statement in (
        "UPDATE files SET status = 'pending' WHERE name = 'b.txt'",
        "INSERT INTO blobs (blob_hash, size) VALUES (repeat('cd', 32), 1)",
        "INSERT INTO blob_holds VALUES ('h', repeat('ef', 32), now() - interval '1 s')",
        "UPDATE generation_documents SET chunk_count = 7",
        "DELETE FROM vectors",
    ):
        await rows(app, statement + " RETURNING 1")
    assert set(await findings(app)) == {
        "deep:waiting_files", "deep:loose_blobs", "deep:expired_holds", "deep:miscounted", "deep:stray_blobs",
        "deep:chunks_without_vector", "deep:missing_blobs",
    }  # fmt: skip
    await rows(app, "DELETE FROM generation_documents RETURNING 1")
    await rows(app, "UPDATE files SET status = 'ready' RETURNING 1")
    await rows(app, "DELETE FROM documents WHERE document_id <> 'x' RETURNING 1")
    await rows(app, "DELETE FROM blobs WHERE blob_hash = repeat('cd', 32) RETURNING 1")
    assert "deep:lost_files" in await findings(app)
    await orphans.sweep(await app.database(), blobs)
    assert await findings(app) == ["deep:stray_blobs"]
    for check in await deep_check(app):
        assert "1" in render(check.key, "zh", **check.values)


async def test_a_base_is_deleted_while_uploads_come(app: App, base_id: str) -> None:
    async def more() -> None:
        for number in range(30):
            try:
                await upload(app, base_id, f"{number}.txt", b"text %d" % number)
            except BaseNotFound:
                return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(more)
        await until(lambda: has(app, "SELECT 1 FROM files"))
        await removal.remove_base(app, OWNER, base_id)
    assert await rows(app, "SELECT count(*) FROM bases") == [(0,)]
    assert await findings(app) == []
    with pytest.raises(BaseNotFound):
        await removal.remove_base(app, OWNER, base_id)
    assert await jobs.take(await app.database(), worker="w", lease=1) is None
