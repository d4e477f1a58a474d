"""Keys and audit on a real database: what is stored, who is let in, how often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import psycopg
import pytest

from ragstone.errors import BaseNotFound, InputError, NotFound, RateLimited, Unauthorized
from ragstone.kb import audit, bases, keys
from ragstone.kb.caller import OWNER, Caller
from ragstone.kb.keyring import Keyring
from ragstone.postgres.migrate import migrate
from ragstone.postgres.pool import Database
from ragstone.store.postgres import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    async with await Database.open(conninfo) as database:
        await PostgresStore.open(database)
        async with database.connection() as connection:
            await migrate(connection, "kb", files("ragstone.kb") / "migrations")
        yield database


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_key_is_shown_once_and_only_its_hash_is_stored(database: Database, conninfo: str) -> None:
    base_id = await bases.ensure(database, "papers")
    info, key = await keys.create(
        database, OWNER, name=" wiki ", role="reader", bases=[base_id, base_id], per_minute=60
    )
    assert (info.name, info.role, info.bases, info.per_minute) == ("wiki", "reader", [base_id], 60)
    assert key.startswith(info.prefix)
    with psycopg.connect(conninfo) as connection:
        dump = "".join(
            str(row)
            for table in ("keys", "audit")
            for row in connection.execute(f"TABLE {table}")  # type: ignore[arg-type]
        )
    assert info.prefix in dump
    assert key not in dump
    assert key[len(info.prefix) :] not in dump
    caller = await Keyring(database).caller(key)
    assert caller == Caller(key_id=info.key_id, role="reader", bases=frozenset({base_id}))
    listed, total = await keys.listing(database, OWNER, limit=10)
    assert total == 1
    assert listed[0].last_used_at is not None


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"name": "  "}, "access.key_name"),
        ({"name": "a\u202eb"}, "access.key_name"),
        ({"name": "a\nb"}, "access.key_name"),
        ({"name": "x" * 65}, "access.key_name"),
        ({"bases": []}, "access.key_bases"),
        ({"bases": ["no such base"]}, "access.base"),
        ({"role": "admin", "bases": ["x"]}, "access.admin_bases"),
        ({"per_minute": 0}, "access.per_minute"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "access.expires"),
        ({"expires_at": datetime(2999, 1, 1, tzinfo=UTC)}, "access.expires"),
        ({"expires_at": datetime(2030, 1, 1)}, "access.expires"),
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(
    database: Database, values: dict[str, object], code: str
) -> None:
    with pytest.raises((InputError, BaseNotFound)) as refused:
        await keys.create(database, OWNER, **({"name": "k", "role": "reader"} | values))  # type: ignore[arg-type]
    assert refused.value.code == code
    assert await keys.listing(database, OWNER, limit=10) == ([], 0)
    assert not await keys.made_any(database)


async def test_a_revoked_key_is_refused_within_two_seconds_and_still_shuts_the_door(
    database: Database,
) -> None:
    clock = Clock()
    keyring = Keyring(database, clock=clock)
    assert not await keyring.wanted()
    info, key = await keys.create(database, OWNER, name="k", role="admin")
    clock.now += 2
    assert await keyring.wanted()
    await keyring.caller(key)
    await keys.revoke(database, OWNER, info.key_id)
    await keyring.caller(key)  # remembered
    clock.now += 2
    with pytest.raises(Unauthorized) as refused:
        await keyring.caller(key)
    assert refused.value.code == "access.key_revoked"
    again = await keys.revoke(database, OWNER, info.key_id)
    assert again.revoked_at is not None
    assert not await keys.any_usable(database)
    assert await Keyring(database).wanted()  # nobody comes in because all keys were revoked
    with pytest.raises(NotFound):
        await keys.revoke(database, OWNER, "'; DROP TABLE keys; --")


async def test_an_expired_key_is_refused(database: Database, conninfo: str) -> None:
    _, key = await keys.create(
        database, OWNER, name="k", role="reader", expires_at=datetime.now(UTC) + timedelta(days=1)
    )
    assert await keys.any_usable(database)
    with psycopg.connect(conninfo) as connection:
        connection.execute("UPDATE keys SET expires_at = now() - interval '1 second'")
    with pytest.raises(Unauthorized) as refused:
        await Keyring(database).caller(key)
    assert refused.value.code == "access.key_expired"
    assert not await keys.any_usable(database)


@pytest.mark.parametrize(
    "key",
    ["", "rs_", "rs_" + "a" * 43, "rs_" + "a" * 44, "rs_" + "ä" * 43, "x" * 1_000_000, "rs_\0" + "a" * 42],
)
async def test_what_is_no_key_of_ours_is_unknown(database: Database, key: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        await Keyring(database).caller(key)
    assert refused.value.code == "access.key_unknown"


async def test_that_a_key_is_in_use_is_written_once_a_minute(database: Database, conninfo: str) -> None:
    _, key = await keys.create(database, OWNER, name="k", role="reader")

    def last_used() -> datetime:
        with psycopg.connect(conninfo) as connection:
            return connection.execute("SELECT last_used_at FROM keys").fetchone()[0]  # type: ignore[index]

    await Keyring(database).caller(key)
    first = last_used()
    await Keyring(database).caller(key)
    assert last_used() == first
    with psycopg.connect(conninfo) as connection:
        connection.execute("UPDATE keys SET last_used_at = now() - interval '61 seconds'")
    await Keyring(database).caller(key)
    assert last_used() > first


async def test_a_key_may_ask_as_often_as_its_limit_says(database: Database) -> None:
    clock = Clock()
    keyring = Keyring(database, clock=clock)
    _, slow = await keys.create(database, OWNER, name="slow", role="reader", per_minute=3)
    _, free = await keys.create(database, OWNER, name="free", role="reader")
    for _ in range(3):
        await keyring.caller(slow)
    with pytest.raises(RateLimited) as refused:
        await keyring.caller(slow)
    assert refused.value.values == {"limit": 3, "seconds": 20}
    for _ in range(100):
        await keyring.caller(free)
    clock.now += 20
    await keyring.caller(slow)
    with pytest.raises(RateLimited):
        await keyring.caller(slow)
    clock.now += 3_600
    for _ in range(3):
        await keyring.caller(slow)
    with pytest.raises(RateLimited):
        await keyring.caller(slow)


async def test_the_audit_is_written_with_the_change_or_not_at_all(database: Database) -> None:
    info, _ = await keys.create(database, OWNER, name="k", role="admin")
    admin = Caller(key_id=info.key_id, role="admin")
    await keys.revoke(database, admin, info.key_id)

    async def fail_half_way() -> None:
        async with database.transaction() as connection:
            await audit.record(connection, admin, "base.delete", base_id="b", subject="b")
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail_half_way()
    async with database.transaction() as connection:
        await audit.record(connection, admin, "base.create", base_id="b", subject="b", detail={"name": "纸"})
    entries, total = await audit.listing(database, OWNER, limit=2)
    assert total == 3
    assert [entry.action for entry in entries] == ["base.create", "key.revoke"]
    assert (entries[0].detail, entries[0].key_id, entries[1].subject) == (
        {"name": "纸"},
        info.key_id,
        info.key_id,
    )
    oldest, _ = await audit.listing(database, OWNER, limit=2, offset=2)
    assert [(entry.action, entry.key_id) for entry in oldest] == [("key.create", None)]
    for filters, count in (
        ({"action": "key.revoke"}, 1),
        ({"base_id": "b"}, 1),
        ({"key_id": info.key_id}, 2),
        ({"since": entries[0].at}, 1),
        ({"until": entries[0].at}, 2),
    ):
        assert (await audit.listing(database, OWNER, limit=10, **filters))[1] == count  # type: ignore[arg-type]
