"""Ragstone as it is installed: everything in an embedded PostgreSQL, whose processes are counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
from measure import Known, main
from over_store import Ragstone

from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.store.postgres import PostgresStore


class Durable(Ragstone):
    """Ragstone in the PostgreSQL of a folder."""

    def __init__(
        self,
        known: Known,
        store: PostgresStore,
        database: Database,
        server: EmbeddedServer,
        tokens: Mapping[str, Any],
    ) -> None:
        super().__init__(known, store, tokens=tokens)
        self._database, self._server = database, server
        (pid_file,) = server.folder.rglob("postmaster.pid")
        self._postmaster = psutil.Process(int(pid_file.read_text().splitlines()[0]))

    def other_cpu(self) -> float:
        # The server's own times hold those of its processes that have ended.
        spent = sum(self._postmaster.cpu_times()[:4])
        return spent + sum(sum(child.cpu_times()[:2]) for child in self._postmaster.children())

    async def close(self) -> None:
        await self._database.aclose()
        await self._server.aclose()


async def make(known: Known, work: Path, tokens: Mapping[str, Any] = MappingProxyType({})) -> Durable:
    server = await EmbeddedServer.start(work / "home")
    database = await Database.open(server.ensure_running)
    return Durable(known, await PostgresStore.open(database), database, server, tokens)


if __name__ == "__main__":
    main(make)
