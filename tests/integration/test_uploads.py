"""Uploads: one document for the same bytes, and nothing left of what failed."""

from __future__ import annotations

import hashlib

import anyio
import pytest

from ragstone.errors import (
    BaseNotFound,
    ContentTooLarge,
    Forbidden,
    InputError,
    InvalidMetadata,
    NoText,
    RagstoneError,
    StoreUnavailable,
    UnsupportedContent,
)
from ragstone.kb import bases, jobs, orphans, uploads
from ragstone.kb.blobs import BlobStore
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, Caller
from ragstone.kb.uploads import Spool, Target, Uploaded, tidy_name

pytestmark = pytest.mark.anyio


async def upload(
    app: App,
    base_id: str,
    data: bytes = b"Orchids need shade.",
    *,
    name: str = "orchids.txt",
    caller: Caller = OWNER,
    blobs: BlobStore | None = None,
    limit: int = 1_000_000,
    **said: object,
) -> Uploaded:
    target = Target(base_id=base_id, **said)  # pyright: ignore[reportArgumentType]
    async with Spool(app.settings.home / "spool", name=name, limit=limit) as spool:
        for start in range(0, len(data), 65_536):
            await spool.write(data[start : start + 65_536])
        return await uploads.upload(await app.database(), blobs or await app.blobs(), caller, spool, target)


async def rows(app: App, query: str) -> list[tuple[object, ...]]:
    async with (await app.database()).connection() as connection:
        return await (await connection.execute(query)).fetchall()  # pyright: ignore[reportArgumentType]


async def counts(app: App) -> dict[str, int]:
    names = ("files", "jobs", "blobs", "blob_holds")
    found = {name: len(await rows(app, f"SELECT 1 FROM {name}")) for name in names}
    return found | {"stored": len([name async for name in (await app.blobs()).hashes()])}


async def test_w10_an_upload_is_a_blob_a_row_and_a_job_and_the_job_holds_an_id_only(
    app: App, base_id: str
) -> None:
    done = await upload(app, base_id, name="orchids.txt", category="plants", metadata={"year": 2024})
    assert done.outcome == "created"
    assert await counts(app) == {"files": 1, "jobs": 1, "blobs": 1, "blob_holds": 0, "stored": 1}
    file = (await rows(app, "SELECT name, category, metadata, size, media_type, status FROM files"))[0]
    assert file == ("orchids.txt", "plants", {"year": 2024}, 19, "text/plain", "pending")
    job = await jobs.take(await app.database(), worker="w", lease=10)
    assert job is not None
    assert job.document_id == done.document_id


async def test_a84_w09_ten_uploads_of_the_same_bytes_at_once_are_one_document(app: App, base_id: str) -> None:
    done: list[Uploaded] = []

    async def one(number: int) -> None:
        done.append(await upload(app, base_id, name=f"copy {number}.txt"))

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(one, number)
    assert sorted(item.outcome for item in done) == ["created", *["duplicate"] * 9]
    assert len({item.document_id for item in done}) == 1
    assert await counts(app) == {"files": 1, "jobs": 1, "blobs": 1, "blob_holds": 0, "stored": 1}


async def test_w09_a_failed_duplicate_is_queued_again(app: App, base_id: str) -> None:
    first = await upload(app, base_id)
    job = await jobs.take(await app.database(), worker="w", lease=10)
    assert job is not None
    await jobs.fail(await app.database(), job, NoText("load.empty", name="x"))
    assert await rows(app, "SELECT status, error_code FROM files") == [("failed", "load.empty")]
    again = await upload(app, base_id)
    assert (again.outcome, again.document_id) == ("queued_again", first.document_id)
    assert await rows(app, "SELECT status, error_code FROM files") == [("pending", None)]
    assert await rows(app, "SELECT state FROM jobs") == [("queued",)]


async def test_w09_the_hash_is_of_a_base_and_keep_both_makes_a_second_document(
    app: App, base_id: str
) -> None:
    other = await bases.ensure(await app.database(), "other")
    done = [
        await upload(app, base_id),
        await upload(app, other),
        await upload(app, base_id, keep_both=True),
        await upload(app, base_id, keep_both=True),
        await upload(app, base_id, uri="https://example.org/orchids"),
    ]
    assert [item.outcome for item in done] == ["created"] * 5
    assert len({item.document_id for item in done}) == 5
    assert await counts(app) == {"files": 5, "jobs": 5, "blobs": 1, "blob_holds": 0, "stored": 1}


async def test_c1_other_bytes_under_the_same_uri_are_a_new_version_of_one_document(
    app: App, base_id: str
) -> None:
    first = await upload(app, base_id, uri="orchids")
    second = await upload(app, base_id, b"Orchids need light.", uri="orchids")
    assert (second.outcome, second.document_id) == ("new_version", first.document_id)
    assert await rows(app, "SELECT version, status FROM files") == [(2, "pending")]
    assert await orphans.sweep(await app.database(), await app.blobs()) == 1
    assert (await counts(app))["stored"] == 1
    assert (await upload(app, base_id, b"Orchids need light.", uri="orchids")).outcome == "duplicate"


async def test_uploads_that_are_refused_leave_nothing(app: App, base_id: str) -> None:
    reader = Caller(key_id=None, role="reader")
    stranger = Caller(key_id=None, role="editor", bases=frozenset({"else"}))
    refused: list[tuple[type[RagstoneError], dict[str, object]]] = [
        (ContentTooLarge, {"data": b"x" * 101, "limit": 100}),
        (NoText, {"data": b""}),
        (UnsupportedContent, {"data": b"MZ\x90\x00\x03", "name": "report.pdf"}),
        (UnsupportedContent, {"data": b"\x00\x01\x02\x03" * 100}),
        (InputError, {"uri": "sha256:abc"}),
        (InputError, {"uri": "a!/b"}),
        (InputError, {"uri": "a\nb"}),
        (InputError, {"uri": "x" * 2_001}),
        (InputError, {"category": "a\nb"}),
        (InvalidMetadata, {"metadata": {"a": {"b": 1}}}),
        (Forbidden, {"caller": reader}),
        (BaseNotFound, {"caller": stranger}),
        (BaseNotFound, {"base_id": "nowhere"}),
    ]
    for error, said in refused:
        with pytest.raises(error):
            await upload(app, **({"base_id": base_id} | said))  # pyright: ignore[reportArgumentType]
    assert await counts(app) == {"files": 0, "jobs": 0, "blobs": 0, "blob_holds": 0, "stored": 0}


async def test_a_blob_store_that_is_down_is_said_and_leaves_a_hold_that_ends(app: App, base_id: str) -> None:
    url = "s3://bucket/x?endpoint=http://127.0.0.1:9&access_key_id=a&secret_access_key=geheim&region=eu"
    down = await BlobStore.open(url, folder=app.settings.home)
    with pytest.raises(StoreUnavailable, match="s3://bucket/x") as caught:
        await upload(app, base_id, blobs=down)
    assert "geheim" not in str(caught.value)
    assert await counts(app) == {"files": 0, "jobs": 0, "blobs": 0, "blob_holds": 1, "stored": 0}
    await rows(app, "UPDATE blob_holds SET until = now() - interval '1 s' RETURNING 1")
    assert await orphans.sweep(await app.database(), await app.blobs()) == 1
    assert (await counts(app))["blob_holds"] == 0
    assert (await upload(app, base_id)).outcome == "created"


async def test_a_hold_that_ran_out_is_no_upload(app: App, base_id: str) -> None:
    """A sweep may have taken the bytes by then, so no row is made for them."""
    database, blobs = await app.database(), await app.blobs()

    async def slow() -> None:
        async with uploads.held(database, blobs, "a" * 64) as hold_id:
            await rows(app, "UPDATE blob_holds SET until = now() - interval '1 s' RETURNING 1")
            await orphans.sweep(database, blobs)
            async with database.transaction() as connection:
                await uploads.release_hold(connection, hold_id, "a.txt")

    with pytest.raises(StoreUnavailable, match="too long"):
        await slow()
    assert await counts(app) == {"files": 0, "jobs": 0, "blobs": 0, "blob_holds": 0, "stored": 0}


async def test_uploads_and_sweeps_at_once_lose_no_blob(app: App, base_id: str) -> None:
    database, blobs = await app.database(), await app.blobs()

    async def sweeps() -> None:
        for _ in range(20):
            await orphans.sweep(database, blobs)
            await orphans.release(database, blobs, known)

    async def puts(number: int) -> None:
        for _ in range(5):
            await upload(app, base_id, f"text {number}".encode(), keep_both=True)

    known = [hashlib.sha256(f"text {number}".encode()).hexdigest() for number in range(3)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sweeps)
        for number in range(3):
            tasks.start_soon(puts, number)
    assert await counts(app) == {"files": 15, "jobs": 15, "blobs": 3, "blob_holds": 0, "stored": 3}


async def test_addresses_wait_for_their_bytes_and_are_read_again_when_asked_anew(
    app: App, base_id: str
) -> None:
    database, target = await app.database(), Target(base_id=base_id)
    url = "https://Example.org/docs/%E9%A5%AD.html?page=2#part"
    first = await uploads.add_address(database, OWNER, url, target)
    assert (await uploads.add_address(database, OWNER, url, target)).outcome == "duplicate"
    file = (await rows(app, "SELECT uri, name, blob_hash, status FROM files"))[0]
    assert file == ("https://example.org/docs/%E9%A5%AD.html?page=2", "饭.html", None, "pending")
    await rows(app, "UPDATE files SET status = 'ready' RETURNING 1")
    anew = await uploads.add_address(database, OWNER, url, target)
    assert (anew.document_id, anew.outcome) == (first.document_id, "new_version")
    assert anew.job_id is not None
    for wrong in (
        "ftp://a/b",
        "file:///etc/passwd",
        "https://me:pw@host/",
        "https://host/?api_key=1",
        "",
        "x",
    ):
        with pytest.raises(InputError, match="cannot be read by the server") as caught:
            await uploads.add_address(database, OWNER, wrong, target)
        assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\报告.pdf", "报告.pdf"),
        ("a\r\nSet-Cookie: x=1.txt", "a Set-Cookie: x=1.txt"),
        ("nul\x00l.txt", "null.txt"),
        ("\u202efdp.exe", "fdp.exe"),
        ("👩‍🔬 family.pdf", "👩‍🔬 family.pdf"),
        ("تقرير.pdf", "تقرير.pdf"),
        ("cafe\u0301.txt", "café.txt"),
        ("..", "unnamed"),
        ("/", "unnamed"),
        ("  ", "unnamed"),
        ("饭" * 100 + ".pdf", "饭" * 83 + ".pdf"),
        ("." + "x" * 300, "." + "x" * 254),
    ],
)
async def test_hostile_names_become_one_line_without_a_path(given: str, kept: str) -> None:
    assert tidy_name(given) == kept
    assert len(tidy_name(given).encode()) <= 255


async def test_c14_a_large_upload_lies_on_disk_not_in_memory(app: App, base_id: str) -> None:
    data = bytes(range(32, 127)) * 60_000
    async with Spool(app.settings.home / "spool", name="large.txt", limit=10_000_000) as spool:
        for start in range(0, len(data), 65_536):
            await spool.write(data[start : start + 65_536])
        assert spool.file._rolled
        assert list((app.settings.home / "spool").iterdir()) == []
        done = await uploads.upload(
            await app.database(), await app.blobs(), OWNER, spool, Target(base_id=base_id)
        )
    assert done.outcome == "created"
    pieces = [piece async for piece in (await app.blobs()).read(spool.blob_hash)]
    assert b"".join(pieces) == data
