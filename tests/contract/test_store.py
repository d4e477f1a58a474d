"""Every store passes the one contract suite: in memory, and in the embedded PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from ragstone.postgres.pool import Database
from ragstone.protocols import Store
from ragstone.store.memory import MemoryStore
from ragstone.store.postgres import PostgresStore
from ragstone.testing.databases import temporary_database
from ragstone.testing.store_contract import StoreContract

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def conninfo(embedded_database: str) -> Iterator[str]:
    with temporary_database(embedded_database) as conninfo:
        yield conninfo


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.aclose()


class TestEmbeddedPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, conninfo: str) -> AsyncIterator[Store]:
        async with await Database.open(conninfo) as database:
            store = await PostgresStore.open(database)
            async with database.connection() as connection:
                await connection.execute("TRUNCATE bases CASCADE")
                await connection.execute("DELETE FROM models")
            yield store
