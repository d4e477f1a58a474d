"""The store contract on a PostgreSQL of one's own: another version, on TCP, with a password."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ragstone.postgres.pool import Database
from ragstone.protocols import Store
from ragstone.store.postgres import PostgresStore
from ragstone.testing.databases import temporary_database
from ragstone.testing.store_contract import StoreContract

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def conninfo(external_postgres: Any) -> Iterator[str]:
    with temporary_database(external_postgres.url) as conninfo:
        yield conninfo


class TestExternalPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, conninfo: str) -> AsyncIterator[Store]:
        async with await Database.open(conninfo) as database:
            store = await PostgresStore.open(database)
            async with database.connection() as connection:
                await connection.execute("TRUNCATE bases CASCADE")
                await connection.execute("DELETE FROM models")
            yield store
