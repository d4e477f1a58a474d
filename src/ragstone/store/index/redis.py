"""A vector index in Redis 8: one vector set a collection.

Values are kept as int8, the default of vector sets: a quarter of the memory, and the
store ranks what is found anew with its own values.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import anyio.to_thread
import numpy as np

from ragstone.errors import InvalidSetting, MissingExtra, StoreIncompatible, StoreUnavailable
from ragstone.store.index import base_key, batches, check_dimension, check_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from redis.asyncio import Redis

PUT_BATCH = 200
"""Commands sent at once; the server answers others in between."""
DROP_BATCH = 1_000
EF = 200
"""How many nodes a search keeps in view (VSIM EF); more when more are asked for."""
TIMEOUT_S = 5.0
MINIMUM_SERVER = 8
"""The first version of Redis with vector sets."""


class RedisIndex:
    """Implements `protocols.VectorIndex`. Connects at first need, and again after a failure.

    Made by `RedisIndex.open`. A filter on bases that few vectors pass may find fewer than
    there are: the walk ends after 100 times as many nodes as are asked for (VSIM FILTER-EF).
    """

    def __init__(self, client: Redis, identity: str) -> None:
        self._client = client
        self._identity = identity
        self._checked = False

    @classmethod
    async def open(cls, url: str) -> RedisIndex:
        """An index at `redis://` or `rediss://[user:password@]host:port/number`.

        Raises:
            MissingExtra: the package redis is not installed.
            InvalidSetting: no address of a Redis server.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise InvalidSetting("store.index_url", kind="redis", example="redis://localhost:6379/0")
        client = await anyio.to_thread.run_sync(_client, url)
        return cls(client, f"redis:{parts.hostname}:{parts.port or 6379}{parts.path.rstrip('/') or '/0'}")

    @property
    def identity(self) -> str:
        return self._identity

    async def put(
        self, collection: str, ids: Sequence[str], vectors: NDArray[np.float32], *, bases: Sequence[str]
    ) -> None:
        check_rows(collection, ids, vectors, bases)
        if not ids:
            return
        async with self._reached():
            await self._check_dimension(collection, vectors.shape[1])
            rows = [
                ("VADD", collection, "FP32", _blob(vector), chunk_id, "SETATTR", _attributes(base))
                for chunk_id, vector, base in zip(ids, vectors, bases, strict=True)
            ]
            for batch in batches(rows, PUT_BATCH):
                await self._send(batch)

    async def drop(self, collection: str, ids: Sequence[str]) -> None:
        async with self._reached():
            for batch in batches(ids, DROP_BATCH):
                await self._send([("VREM", collection, chunk_id) for chunk_id in batch])

    async def search(
        self, collection: str, vector: NDArray[np.float32], *, bases: Sequence[str] | None, top_k: int
    ) -> list[str]:
        check_rows(collection, ["question"], vector[None], ["any"])
        command: list[object] = ["VSIM", collection, "FP32", _blob(vector)]
        command += ["COUNT", top_k, "EF", max(EF, top_k)]
        if bases is not None:
            if not bases:
                return []
            command += ["FILTER", _condition(bases)]
        async with self._reached():
            await self._check_dimension(collection, vector.shape[0])
            found = cast("list[bytes]", await cast(Any, self._client).execute_command(*command))
        return [item.decode() for item in found or ()]

    async def clear(self, collection: str) -> None:
        async with self._reached():
            await cast(Any, self._client).unlink(collection)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _check_dimension(self, collection: str, found: int) -> None:
        client = cast(Any, self._client)
        if not self._checked:
            version = str((await client.info("server")).get("redis_version", "0"))
            if int(version.partition(".")[0]) < MINIMUM_SERVER:
                raise StoreIncompatible("store.index_redis", index=self._identity, found=version)
            self._checked = True
        if await client.exists(collection):
            check_dimension(collection, found, int(await client.execute_command("VDIM", collection)))

    async def _send(self, commands: Sequence[tuple[object, ...]]) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                cast(Any, pipeline).execute_command(*command)
            await pipeline.execute()

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[None]:
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise StoreUnavailable("store.index_failed", index=self._identity, reason=reason) from error


def _client(url: str) -> Redis:
    try:
        from redis.asyncio import Redis
        from redis.driver_info import DriverInfo
    except ImportError as error:
        raise MissingExtra(
            "core.missing_extra", feature="RAGSTONE_VECTOR_INDEX=redis", extra="redis"
        ) from error
    made = cast(Any, Redis).from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        # Else each new connection looks the package's version up on the disk.
        driver_info=DriverInfo(),
    )
    return cast("Redis", made)


def _blob(vector: NDArray[np.float32]) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def _attributes(base_id: str) -> str:
    return f'{{"base":"{base_key(base_id)}"}}'


def _condition(bases: Sequence[str]) -> str:
    return ".base in [" + ",".join(f'"{base_key(base_id)}"' for base_id in bases) + "]"
