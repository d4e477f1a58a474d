"""Every vector index passes the one contract suite, against the real server (rows A27, A29)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.errors import InvalidSetting, StoreUnavailable
from ragstone.protocols import VectorIndex
from ragstone.store.index.milvus import MilvusIndex, connection_arguments
from ragstone.store.index.redis import RedisIndex
from ragstone.testing.index_contract import VectorIndexContract, X, rows
from ragstone.testing.vector_index import MemoryVectorIndex
from services import free_port

pytestmark = pytest.mark.anyio


class TestMemoryVectorIndex(VectorIndexContract):
    @pytest.fixture
    def index(self) -> VectorIndex:
        return MemoryVectorIndex()


class TestMilvusLite(VectorIndexContract):
    @pytest.fixture
    async def index(self, milvus_file: Path) -> AsyncIterator[VectorIndex]:
        index = await MilvusIndex.open(str(milvus_file))
        yield index
        await index.aclose()

    async def test_what_was_put_is_there_after_the_file_was_closed(self, milvus_file: Path) -> None:
        first = await MilvusIndex.open(str(milvus_file))
        await first.put("kept", ["1"], rows(X), bases=["b"])
        await first.aclose()
        second = await MilvusIndex.open(str(milvus_file))
        assert await second.search("kept", rows(X)[0], bases=["b"], top_k=3) == ["1"]
        await second.aclose()


class TestMilvusServer(VectorIndexContract):
    @pytest.fixture
    async def index(self, milvus_url: str) -> AsyncIterator[VectorIndex]:
        index = await MilvusIndex.open(milvus_url, consistency="Strong")
        yield index
        await index.aclose()


class TestRedis(VectorIndexContract):
    @pytest.fixture
    async def index(self, redis8_url: str) -> AsyncIterator[VectorIndex]:
        index = await RedisIndex.open(redis8_url)
        yield index
        await index.aclose()


def test_user_and_password_of_a_milvus_address_are_read_without_their_escapes() -> None:
    found = connection_arguments("https://me%40here:p%40ss%2Fword@milvus.example:19530/library")
    assert found == {
        "uri": "https://milvus.example:19530",
        "user": "me@here",
        "password": "p@ss/word",
        "db_name": "library",
    }


@pytest.mark.parametrize("kind", [MilvusIndex, RedisIndex])
async def test_a_server_that_is_not_there_is_unavailable_within_seconds(
    kind: type[MilvusIndex] | type[RedisIndex],
) -> None:
    scheme = "http" if kind is MilvusIndex else "redis"
    index = await kind.open(f"{scheme}://user:secret@127.0.0.1:{free_port()}")
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as caught:
                await index.search("any", rows(X)[0], bases=None, top_k=3)
            assert "127.0.0.1" in str(caught.value)
            assert "secret" not in str(caught.value) + index.identity
    finally:
        await index.aclose()


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        (MilvusIndex, "localhost:19530"),
        (MilvusIndex, "redis://h"),
        (RedisIndex, "localhost"),
        (RedisIndex, ""),
    ],
)
async def test_an_address_of_another_kind_is_refused(
    kind: type[MilvusIndex] | type[RedisIndex], url: str
) -> None:
    with pytest.raises(InvalidSetting):
        await kind.open(url)
