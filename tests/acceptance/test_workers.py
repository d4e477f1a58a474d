"""Workers as processes: they share the load, die, stop and break down, and no document is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from api import Api
from ragstone.kb import bases
from ragstone.kb.bootstrap import App
from serving import address_of, process
from working import application, rows, settled, upload

pytestmark = pytest.mark.anyio

MANY = 48


def started(running: subprocess.Popen[str]) -> None:
    """Wait until a worker says that it takes jobs."""
    assert running.stdout is not None
    line = running.stdout.readline()
    assert "waits for jobs" in line, line + (running.stderr.read() if running.stderr else "")


async def test_a86_w11_two_workers_share_many_jobs_every_one_is_done_and_none_twice(
    conninfo: str, tmp_path: Path
) -> None:
    async with application(conninfo, tmp_path) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        logs = [tmp_path / f"{number}.log" for number in range(2)]
        with ExitStack() as stack:
            workers = [
                stack.enter_context(process("worker", home=tmp_path, log=log, database_url=conninfo))
                for log in logs
            ]
            for worker in workers:
                started(worker)
            async with anyio.create_task_group() as tasks:
                for client in range(8):
                    tasks.start_soon(put, app, base_id, range(client, MANY, 8))
            await settled(app)
        ended = await rows(app, "SELECT state, attempts, count(*) FROM jobs GROUP BY 1, 2")
        assert ended == [("done", 1, MANY)]
        assert await rows(app, "SELECT status, count(*) FROM files GROUP BY 1") == [("ready", MANY)]
        assert await rows(app, "SELECT count(*) FROM documents") == [(MANY,)]
    said = [log.read_text() for log in logs]
    assert sum(text.count("job done") for text in said) == MANY
    assert all("job done" in text for text in said)


async def put(app: App, base_id: str, numbers: range) -> None:
    for number in numbers:
        await upload(app, base_id, f"Orchid number {number} needs shade.", f"{number}.txt")


async def test_c9_w11_a_worker_is_killed_and_the_other_does_its_work_after_one_lease(
    conninfo: str, tmp_path: Path
) -> None:
    settings = {"database_url": conninfo, "lease_seconds": "2"}
    async with application(conninfo, tmp_path) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        with process("worker", "--concurrency", "1", home=tmp_path, **settings) as first:
            started(first)
            held = await caught_working(app, base_id, first)
            first.kill()
            first.wait()
        assert await rows(app, "SELECT state FROM jobs WHERE job_id = %s", held) == [("running",)]
        with process("worker", "--concurrency", "1", home=tmp_path, **settings) as second:
            started(second)
            await settled(app)
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
        again = await rows(app, "SELECT attempts FROM jobs WHERE job_id = %s", held)
        assert again == [(2,)]
        others = await rows(app, "SELECT DISTINCT state, attempts FROM jobs WHERE job_id <> %s", held)
        assert others == [("done", 1)]
        assert await rows(app, "SELECT DISTINCT status FROM files") == [("ready",)]


async def caught_working(app: App, base_id: str, worker: subprocess.Popen[str]) -> int:
    """The job that a worker is at, while it stands still."""
    number = 0

    async def held() -> list[tuple[int]]:
        nonlocal number
        for _ in range(10):
            number += 1
            await upload(app, base_id, f"Orchid number {number}. " * 400, f"{number}.txt")
        os.kill(worker.pid, signal.SIGSTOP)
        found = await rows(
            app, "SELECT job_id FROM jobs WHERE state = 'running' AND worker_id LIKE %s", f"%:{worker.pid}:%"
        )
        if not found:
            os.kill(worker.pid, signal.SIGCONT)
        return found

    with anyio.fail_after(60):
        while not (found := await held()):
            pass
    return found[0][0]


async def test_the_server_indexes_by_itself_and_says_why_when_its_worker_breaks_down(
    conninfo: str, tmp_path: Path
) -> None:
    async with application(conninfo, tmp_path) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        with process("serve", "--port", "0", home=tmp_path, database_url=conninfo) as server:
            address_of(server)
            await upload(app, base_id, "Orchids need shade.")
            await settled(app)
            assert await rows(app, "SELECT status FROM files") == [("ready",)]
            await rows(app, "ALTER TABLE jobs RENAME TO lost_jobs")
            await (await app.wakeup()).notify()
            assert server.wait(60) == 1
            assert server.stderr is not None
            assert "The worker beside the server broke down" in server.stderr.read()


async def test_c12_a_document_is_seen_from_its_upload_on_and_a_failed_one_can_be_deleted(
    conninfo: str, tmp_path: Path
) -> None:
    """Also C11 and A85 as programs see them."""
    with ExitStack() as stack:
        server = stack.enter_context(
            process("serve", "--port", "0", home=tmp_path, database_url=conninfo, worker_concurrency="0")
        )
        url = await anyio.to_thread.run_sync(address_of, server)
        api = Api(stack.enter_context(httpx2.Client(base_url=url, trust_env=False)))
        base_id, document_ids = await anyio.to_thread.run_sync(two_uploaded, api)
        worker = stack.enter_context(process("worker", home=tmp_path, database_url=conninfo))
        await anyio.to_thread.run_sync(started, worker)
        await anyio.to_thread.run_sync(one_failed, api, base_id, document_ids)


def two_uploaded(api: Api) -> tuple[str, dict[str, str]]:
    base_id = api.make_base("papers")
    api.upload(base_id, ("good.txt", b"Orchids need shade."), ("bad.pdf", b"%PDF-1.7 cut off"))
    listed = api.documents(base_id)
    assert {item["status"] for item in listed} == {"pending"}
    return base_id, {item["name"]: item["document_id"] for item in listed}


def one_failed(api: Api, base_id: str, document_ids: dict[str, str]) -> None:
    for _ in range(2):
        ended = api.settled(base_id)
        assert {name: item["status"] for name, item in ended.items()} == {
            "good.txt": "ready",
            "bad.pdf": "failed",
        }
        assert ended["bad.pdf"]["error"]["code"].startswith("parse.")
        dead = api.call("GET", "/api/jobs", params={"state": "dead"})["items"]
        assert [job["document_id"] for job in dead] == [document_ids["bad.pdf"]]
        api.call("POST", f"/api/bases/{base_id}/documents/retry", status=202)
    api.settled(base_id)
    for document_id in document_ids.values():
        api.call("DELETE", f"/api/documents/{document_id}")
    assert api.documents(base_id) == []
    assert api.call("GET", "/api/jobs")["total"] == 0


async def test_jobs_over_http_are_listed_cancelled_and_tried_again_and_a_base_is_built_anew(
    conninfo: str, tmp_path: Path
) -> None:
    """Also A31 and A85 by their routes."""
    async with application(conninfo, tmp_path) as app:
        base_id = await bases.ensure(await app.database(), "papers")
        with ExitStack() as stack:
            arguments = ("serve", "--port", "0")
            server = stack.enter_context(
                process(*arguments, home=tmp_path, database_url=conninfo, worker_concurrency="0")
            )
            api = stack.enter_context(httpx2.Client(base_url=address_of(server), trust_env=False))
            document_id = await upload(app, base_id, "Orchids need shade.")
            await anyio.to_thread.run_sync(jobs_by_hand, api, base_id, document_id)
            worker = stack.enter_context(process("worker", home=tmp_path, database_url=conninfo))
            started(worker)
            await settled(app)

            def done() -> list[tuple[str, str]]:
                items = api.get("/api/jobs", params={"base_id": base_id}).json()["items"]
                return [(item["kind"], item["state"]) for item in items]

            assert sorted(await anyio.to_thread.run_sync(done)) == [("index", "done"), ("reindex", "done")]


def jobs_by_hand(api: httpx2.Client, base_id: str, document_id: str) -> None:
    page = api.get("/api/jobs", params={"state": "queued"}).json()
    assert (page["total"], page["items"][0]["document_id"]) == (1, document_id)
    job_id = page["items"][0]["job_id"]
    cancelled = api.post(f"/api/jobs/{job_id}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert api.post(f"/api/jobs/{job_id}/cancel").status_code == 409
    (again,) = api.post(f"/api/jobs/{job_id}/replay").json()["job_ids"]
    assert re.fullmatch(r"[0-9a-f]{32}", again)
    assert again != job_id
    assert api.post("/api/jobs/replay").json() == {"job_ids": []}
    assert api.get(f"/api/jobs/{job_id}").status_code == 404
    for wrong in ("0", "x", "%00", "9" * 30):
        assert api.get(f"/api/jobs/{wrong}").status_code == 404
    assert api.get("/api/jobs", params={"state": "no"}).status_code == 422
    made = api.post(f"/api/bases/{base_id}/reindex")
    assert (made.status_code, made.json()["kind"], made.json()["state"]) == (202, "reindex", "queued")
    assert api.post(f"/api/bases/{base_id}/reindex").json()["job_id"] == made.json()["job_id"]
    missing = api.post("/api/bases/nowhere/reindex", headers={"Accept-Language": "zh"})
    assert (missing.status_code, missing.json()["code"]) == (404, "access.base")
