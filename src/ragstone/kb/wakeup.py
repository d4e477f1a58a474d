"""Waking workers when a job was queued. Only a hint: what is lost is found by looking.

`NotifyWakeup` speaks through PostgreSQL, `StreamWakeup` through a stream of Redis, whose
consumer group gives each message to one of the workers on many machines.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import psycopg

from ragstone.errors import InvalidSetting, MissingExtra, StoreError, StoreUnavailable
from ragstone.kb.bases import QUERIES
from ragstone.postgres.pool import Connection, Database

if TYPE_CHECKING:
    from redis.asyncio import Redis

_LOGGER = logging.getLogger(__name__)

STREAM = "ragstone:jobs"
GROUP = "workers"
MAX_LENGTH = 1_000
"""Messages the stream keeps, about; what a worker takes is found in the table."""
CLAIM_AFTER_S = 30.0
"""A message that its reader has not acknowledged for so long goes to another."""
FORGET_AFTER_S = 3_600.0
"""A worker that has not read for so long is gone."""
BLOCK_S = 5.0
_NOTIFY_S = 1.0
_ANSWER_S = 3 * BLOCK_S


class Wakeup(Protocol):
    """`notify` in one process ends `wait` in another."""

    async def notify(self, job_ids: Sequence[str] = ()) -> None:
        """Jobs were queued, and that is committed. Never fails: whoever looks finds them anyway."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Until a job may be there, at most so long; whether it was notified. One task at a time."""
        ...

    async def check(self) -> None:
        """Raises StoreUnavailable when nobody would be woken."""
        ...

    async def aclose(self) -> None: ...


class NotifyWakeup:
    """LISTEN and NOTIFY of the database that holds the jobs; a process that waits keeps a connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listening = AsyncExitStack()
        self._connection: Connection | None = None

    async def notify(self, job_ids: Sequence[str] = ()) -> None:
        del job_ids
        try:
            async with self._database.connection() as connection:
                await connection.execute(QUERIES["notify"])
        except StoreError as error:
            _LOGGER.warning("no worker woken", extra={"code": error.code})

    async def wait(self, seconds: float) -> bool:
        until = anyio.current_time() + seconds
        try:
            if self._connection is None:
                await self._listens()
                return True  # what was told before is found by looking
            connection = self._connection
            async with aclosing(connection.notifies(timeout=seconds, stop_after=1)) as notices:
                async for _ in notices:
                    return True
        except (StoreError, psycopg.Error):
            await self._leave()
            await anyio.sleep_until(until)
        return False

    async def check(self) -> None:
        async with self._database.connection():
            pass

    async def _listens(self) -> None:
        connection = await self._listening.enter_async_context(self._database.beside())
        await connection.execute(QUERIES["listen"])
        await connection.commit()
        self._connection = connection

    async def _leave(self) -> None:
        self._connection = None
        with anyio.CancelScope(shield=True), suppress(StoreError):
            await self._listening.aclose()

    async def aclose(self) -> None:
        await self._leave()


class StreamWakeup:
    """A stream of Redis, read by one consumer group. Made by `open`; connects at first need.

    While Redis cannot be reached, which is logged once, `wait` takes its time and `notify`
    does nothing: work goes on at the pace of those who look.
    """

    def __init__(self, client: Redis, address: str, *, claim_after: float = CLAIM_AFTER_S) -> None:
        self._client = cast(Any, client)
        self._claim_after = claim_after
        self._address = address
        self._consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._joined = False
        self._down = False
        self._quiet_until = 0.0

    @classmethod
    async def open(cls, url: str, *, claim_after: float = CLAIM_AFTER_S) -> StreamWakeup:
        """The stream at `redis://` or `rediss://[user:password@]host:port/number`.

        Raises:
            MissingExtra: the package redis is not installed.
            InvalidSetting: no address of a Redis server.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise InvalidSetting("jobs.redis_url", example="redis://localhost:6379/0")
        client = await anyio.to_thread.run_sync(_client, url)
        return cls(client, f"{parts.hostname}:{parts.port or 6379}", claim_after=claim_after)

    async def notify(self, job_ids: Sequence[str] = ()) -> None:
        if anyio.current_time() < self._quiet_until:
            return
        try:
            with anyio.fail_after(_NOTIFY_S):
                async with self._client.pipeline(transaction=False) as pipeline:
                    for job_id in list(job_ids)[:MAX_LENGTH] or [""]:
                        pipeline.xadd(STREAM, {"job": job_id}, maxlen=MAX_LENGTH)
                    await pipeline.execute()
        except (*_failures(), TimeoutError) as error:
            # Whoever queues a job does not wait for a Redis that is down each time.
            self._quiet_until = anyio.current_time() + BLOCK_S
            self._failed(error)

    async def wait(self, seconds: float) -> bool:
        until = anyio.current_time() + seconds
        try:
            await self._join()
            block = max(1, int(1_000 * min(seconds, BLOCK_S)))
            read = await self._client.xreadgroup(GROUP, self._consumer, {STREAM: ">"}, count=1, block=block)
            found = [message for _, messages in read for message, _ in messages] or await self._claim()
            if found:
                await self._client.xack(STREAM, GROUP, *found)
        except _failures() as error:
            self._joined = False
            self._failed(error)
            await anyio.sleep_until(until)
            return False
        if self._down:
            self._down = False
            _LOGGER.info("Redis wakes workers again", extra={"address": self._address})
        return bool(found)

    async def check(self) -> None:
        try:
            with anyio.fail_after(_NOTIFY_S):
                await self._client.ping()
        except (*_failures(), TimeoutError) as error:
            raise StoreUnavailable("jobs.redis_down", address=self._address) from error

    async def aclose(self) -> None:
        with (
            anyio.CancelScope(shield=True),
            suppress(*_failures(), TimeoutError),
            anyio.fail_after(_NOTIFY_S),
        ):
            if self._joined:
                await self._client.xgroup_delconsumer(STREAM, GROUP, self._consumer)
        await self._client.aclose()

    async def _join(self) -> None:
        """Make stream and group where they are not there, and forget workers that are gone."""
        from redis.exceptions import ResponseError

        if self._joined:
            return
        try:
            await self._client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        for consumer in await self._client.xinfo_consumers(STREAM, GROUP):
            if consumer["idle"] > 1_000 * FORGET_AFTER_S and not consumer["pending"]:
                await self._client.xgroup_delconsumer(STREAM, GROUP, consumer["name"])
        self._joined = True

    async def _claim(self) -> list[Any]:
        """A message whose reader died before it acknowledged it."""
        claimed = await self._client.xautoclaim(
            STREAM, GROUP, self._consumer, int(1_000 * self._claim_after), count=1, justid=True
        )
        return list(claimed)

    def _failed(self, error: BaseException) -> None:
        if not self._down:
            self._down = True
            facts = {"address": self._address, "error": type(error).__name__}
            _LOGGER.warning("Redis out of reach; jobs are found without it, seconds later", extra=facts)


def _failures() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError, OSError)


def _client(url: str) -> Redis:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.driver_info import DriverInfo
    except ImportError as error:
        raise MissingExtra("core.missing_extra", feature="RAGSTONE_REDIS_URL", extra="redis") from error
    made = cast(Any, Redis).from_url(
        url,
        socket_timeout=_ANSWER_S,
        socket_connect_timeout=_NOTIFY_S,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        # Else each new connection looks the package's version up on the disk.
        driver_info=DriverInfo(),
    )
    return cast("Redis", made)
