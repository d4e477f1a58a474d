"""`Database`: connections to PostgreSQL, with failures as our own errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from ragstone.errors import InvalidSetting, RagstoneError, StoreBusy, StoreUnavailable
from ragstone.postgres.errors import first_line, translated
from ragstone.postgres.fields import register

Connection: TypeAlias = AsyncConnection[TupleRow]
Conninfo: TypeAlias = str | Callable[[], Awaitable[str]]
T = TypeVar("T")

DATABASE_SETTING = "RAGSTONE_DATABASE_URL"

# A waiting request gives up after this long; a dead server is noticed much earlier.
POOL_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 10
_CLEAN_UP_S = 5.0
_OPEN_AGAIN_AFTER_S = (0.1, 0.5, 2.0)
_PARTS = (("host", ""), ("port", "0"), ("dbname", ""))

# What the role or the administrator chose as search_path stays; temporary tables come last,
# so that none can stand in front of ours.
_CONFIGURE = """
SELECT set_config('TimeZone', 'UTC', false),
       set_config('jit', 'off', false),
       set_config('client_min_messages', 'warning', false),
       -- A query whose client is gone ends within seconds; only Linux servers can tell.
       CASE WHEN version() LIKE '%linux%' THEN
           set_config('client_connection_check_interval', '2s', false) END,
       set_config('search_path',
                  concat_ws(', ', nullif(current_setting('search_path'), ''), 'pg_temp'), false)
"""


class Database:
    """A pool of connections. Made by `Database.open`; safe to share between tasks of one loop."""

    def __init__(self, pool: AsyncConnectionPool[Connection], resolve: Callable[[], Awaitable[str]]) -> None:
        self._pool = pool
        self._resolve = resolve

    @classmethod
    async def open(
        cls,
        conninfo: Conninfo,
        *,
        min_size: int = 1,
        max_size: int = 8,
        wait: float = POOL_TIMEOUT_S,
        setting: str = DATABASE_SETTING,
    ) -> Database:
        """Connect, and fail at once when that is not possible.

        `conninfo` is a URL (`postgresql://...`), `key=value` words, or an async function
        that returns either before each new connection (`EmbeddedServer.ensure_running`).
        Where all `max_size` connections are in use, work waits up to `wait` seconds for one.
        `setting` is where the text came from, for errors; the password is never named.

        Raises InvalidSetting when the text cannot be read or the server refuses it (user,
        password, database), StoreUnavailable when no server answers. StoreBusy, when
        used, after `wait` seconds without a connection.
        """

        async def resolve() -> str:
            text = conninfo if isinstance(conninfo, str) else await conninfo()
            return prepared_conninfo(text, setting=setting)

        # A server that died this moment is started anew by its function; one at an address is not.
        for delay in () if isinstance(conninfo, str) else _OPEN_AGAIN_AFTER_S:
            with suppress(StoreUnavailable):
                await _probe(await resolve(), setting=setting)
                break
            await anyio.sleep(delay)
        else:
            await _probe(await resolve(), setting=setting)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            resolve,
            min_size=min_size,
            max_size=max_size,
            timeout=wait,
            configure=_configure,
            open=False,
            name="ragstone",
        )
        await pool.open()
        return cls(pool, resolve)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection whose work is committed at the end and rolled back on an error."""
        async with self._given(self._sound) as connection:
            yield connection

    @asynccontextmanager
    async def _given(self, take: Callable[[], Awaitable[Connection]]) -> AsyncGenerator[Connection]:
        with translated():
            connection = await take()
            try:
                yield connection
                await connection.commit()
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_S, shield=True):
                    await self._give_back(connection)

    async def _sound(self) -> Connection:
        """A connection that has just answered: one that died in the pool is replaced."""
        while True:
            connection = await self._pool.getconn()
            sound = False
            try:
                with suppress(psycopg.Error):
                    await self._pool.check_connection(connection)
                    sound = True
                    return connection
            finally:
                # Also when the wait for it is cancelled: the pool would have one less from then on.
                if not sound:
                    with anyio.CancelScope(shield=True):
                        await connection.close()
                        await self._pool.putconn(connection)

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[Connection]:
        """A connection of its own, closed at the end: for what is held long, such as a session's lock.

        All that come from the pool stay for work that is soon done.
        """
        with translated():
            connection: Connection = await AsyncConnection.connect(await self._resolve())
            try:
                await _configure(connection)
                yield connection
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_S, shield=True):
                    await connection.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A connection inside one transaction: all of the block or nothing."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def run_retrying(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do `work` on a connection, once more when the first connection broke.

        For work that may be done twice: reads, and writes that are idempotent. The first
        connection is not asked whether it is alive, which saves a round trip.
        """
        try:
            async with self._given(self._pool.getconn) as connection:
                return await work(connection)
        except StoreBusy:
            raise
        except StoreUnavailable:
            async with self.connection() as connection:
                return await work(connection)

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._pool.close()

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _give_back(self, connection: Connection) -> None:
        """Return a connection, also from a cancelled task: one with a query under way is closed."""
        try:
            if connection.info.transaction_status == pq.TransactionStatus.ACTIVE:
                await connection.close()
            elif connection.info.transaction_status != pq.TransactionStatus.IDLE:
                await connection.rollback()
        except psycopg.Error:
            # A connection that cannot be cleaned is of no more use.
            await connection.close()
        finally:
            await self._pool.putconn(connection)


def prepared_conninfo(text: str, *, setting: str = DATABASE_SETTING) -> str:
    """`text` with our defaults for what it leaves open. Raises InvalidSetting if it cannot be read."""
    try:
        values: dict[str, Any] = dict(conninfo_to_dict(text))
    except psycopg.ProgrammingError:
        # libpq quotes the text, password and all: neither its words nor it as a cause go on.
        raise InvalidSetting("postgres.url", setting=setting) from None
    host, port, database = (str(values.get(name) or default) for name, default in _PARTS)
    # An @, / or : of the password that is not percent-encoded ends up in these parts.
    if "@" in host or "@" in database or not port.replace(",", "0").isdigit():
        raise InvalidSetting("postgres.url", setting=setting)
    values.setdefault("application_name", "ragstone")
    values.setdefault("connect_timeout", _CONNECT_TIMEOUT_S)
    return make_conninfo("", **values | {"client_encoding": "utf8"})


async def _configure(connection: Connection) -> None:
    register(connection)
    await connection.execute(_CONFIGURE)
    await connection.commit()


async def _probe(conninfo: str, *, setting: str) -> None:
    try:
        connection = await AsyncConnection.connect(conninfo)
    except psycopg.OperationalError as error:
        raise await _connect_error(error, conninfo, setting) from None
    await connection.close()


async def _connect_error(error: psycopg.OperationalError, conninfo: str, setting: str) -> RagstoneError:
    """Whether the server refused us or did not answer, as libpq's ping tells it.

    A failed connection carries no SQLSTATE, and its text is in the server's language.
    """
    values = conninfo_to_dict(conninfo)
    reason = first_line(error).removeprefix("connection failed: ")
    password = str(values.get("password") or "")
    if password:
        reason = reason.replace(password, "***")
    answer = await anyio.to_thread.run_sync(pq.PGconn.ping, conninfo.encode())
    if answer == pq.Ping.OK:
        return InvalidSetting("postgres.refused", setting=setting, reason=reason)
    if answer == pq.Ping.NO_ATTEMPT:
        return InvalidSetting("postgres.url", setting=setting)
    if answer == pq.Ping.REJECT:
        return StoreUnavailable("postgres.starting", reason=reason)
    return StoreUnavailable("postgres.unreachable", setting=setting, reason=reason)
