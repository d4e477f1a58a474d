"""Migrations: numbered files in named sets, run forward under one lock, kept in one history.

A set (`library`, `kb`) is a folder of files `0001_name.sql`, `0002_...`, numbered
without gaps. Each file runs once, in its own transaction, which also writes its row
of `ragstone_migrations`; the transaction holds an advisory lock, so that of two
processes that start at once one waits and then finds the work done.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any, LiteralString, cast

import anyio.to_thread
from psycopg import AsyncConnection, errors
from psycopg.rows import TupleRow, tuple_row

from ragstone.errors import StoreIncompatible
from ragstone.postgres.errors import first_line, translated

MINIMUM_SERVER = 15
MINIMUM_VECTOR = (0, 8)

# Any fixed number that no other program is likely to lock.
_LOCK_ID = 0x5261_6773_746F
_LOCK_TIMEOUT = "10min"
_FILE_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")

_HISTORY = """
CREATE TABLE IF NOT EXISTS ragstone_migrations (
    set_name   text NOT NULL,
    number     integer NOT NULL,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set_name, number)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file of a set."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations(folder: Traversable) -> list[Migration]:
    """The files of a set in order. Raises ValueError for a bad name or a gap in the numbers."""
    found: list[Migration] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        match = _FILE_NAME.match(file.name)
        if match is None or int(match[1]) != len(found) + 1:
            raise ValueError(f"migration {file.name}: expected {len(found) + 1:04d}_name.sql")
        # Line ends differ between checkouts; the checksum must not.
        sql = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        found.append(Migration(number=len(found) + 1, name=match[2], sql=sql))
    return found


async def migrate(connection: AsyncConnection[Any], set_name: str, folder: Traversable) -> int:
    """Bring one set of tables up to date; returns how many files ran.

    `connection` must be idle. Raises StoreIncompatible when the database was migrated
    by newer code, when an applied file has changed since, and when the role may not
    create tables.
    """
    migrations = await anyio.to_thread.run_sync(read_migrations, folder)
    ran = 0
    with translated():
        while await _pending(connection, set_name, migrations) is not None:
            async with connection.transaction():
                await _lock(connection)
                await connection.execute(_HISTORY)
                # Another process may have run it while this one waited.
                pending = await _pending(connection, set_name, migrations)
                if pending is not None:
                    await _apply(connection, set_name, pending)
                    ran += 1
    return ran


async def _lock(connection: AsyncConnection[Any]) -> None:
    await connection.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_ID])


async def _apply(connection: AsyncConnection[Any], set_name: str, migration: Migration) -> None:
    # Without parameters psycopg sends the text as it is: several statements, % and all.
    await connection.execute(cast(LiteralString, migration.sql))
    await connection.execute(
        "INSERT INTO ragstone_migrations (set_name, number, name, checksum) VALUES (%s, %s, %s, %s)",
        [set_name, migration.number, migration.name, migration.checksum],
    )


async def _pending(
    connection: AsyncConnection[Any], set_name: str, migrations: Sequence[Migration]
) -> Migration | None:
    """The next file to run, None when all have run; checks those that ran before."""
    applied = await _history(connection, set_name)
    for (number, name, checksum), migration in zip(applied, migrations, strict=False):
        if (number, checksum) != (migration.number, migration.checksum):
            raise StoreIncompatible("postgres.changed", set_name=set_name, number=number, name=name)
    if len(applied) > len(migrations):
        raise StoreIncompatible(
            "postgres.newer", set_name=set_name, found=len(applied), known=len(migrations)
        )
    return migrations[len(applied)] if len(applied) < len(migrations) else None


async def _history(connection: AsyncConnection[Any], set_name: str) -> list[TupleRow]:
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute("SELECT to_regclass('ragstone_migrations') IS NOT NULL")
        row = await cursor.fetchone()
        if row is None or not row[0]:
            return []
        await cursor.execute(
            "SELECT number, name, checksum FROM ragstone_migrations WHERE set_name = %s ORDER BY number",
            [set_name],
        )
        return await cursor.fetchall()


async def prepare_server(connection: AsyncConnection[Any]) -> None:
    """Check the server's version and encoding, and see that pgvector is there.

    Creates the extension where the role may. Raises StoreIncompatible with the command
    to run otherwise.
    """
    version = connection.info.server_version // 10_000
    if version < MINIMUM_SERVER:
        raise StoreIncompatible("postgres.server_version", found=version, minimum=MINIMUM_SERVER)
    with translated():
        async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute("SELECT current_setting('server_encoding')")
            (encoding,) = await cursor.fetchone() or ("",)
            if encoding != "UTF8":
                raise StoreIncompatible(
                    "postgres.encoding", database=connection.info.dbname, encoding=encoding
                )
            await cursor.execute(
                "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
            )
            row = await cursor.fetchone()
        if row is None:
            raise StoreIncompatible("postgres.no_pgvector", version=version)
        await _prepare_vector(connection, installed=row[0], available=row[1])


async def _prepare_vector(connection: AsyncConnection[Any], *, installed: str | None, available: str) -> None:
    minimum = ".".join(map(str, MINIMUM_VECTOR))
    database = connection.info.dbname
    if installed is not None:
        if _version(installed) < MINIMUM_VECTOR:
            raise StoreIncompatible(
                "postgres.old_pgvector_installed", found=installed, minimum=minimum, database=database
            )
        return
    if _version(available) < MINIMUM_VECTOR:
        raise StoreIncompatible("postgres.old_pgvector", found=available, minimum=minimum)
    try:
        async with connection.transaction():
            await _lock(connection)
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except errors.InsufficientPrivilege as error:
        raise StoreIncompatible(
            "postgres.pgvector_permission",
            role=connection.info.user,
            database=database,
            reason=first_line(error),
        ) from error


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
