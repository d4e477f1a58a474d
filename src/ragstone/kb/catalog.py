"""Bases as the application shows them: described, counted, changed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import anyio.to_thread
from psycopg.errors import UniqueViolation
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from ragstone.errors import BaseNotFound, Conflict, InputError
from ragstone.kb import audit
from ragstone.kb.base_settings import with_own
from ragstone.kb.bases import QUERIES, checked_name
from ragstone.kb.caller import Caller
from ragstone.kb.settings import Settings
from ragstone.kb.uploads import checked_category
from ragstone.metadata import storable
from ragstone.postgres.pool import Connection, Database

BaseSort: TypeAlias = Literal["name", "created", "size", "documents", "questions", "accesses"]

MAX_DESCRIPTION = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDetails:
    """A base and what it holds. `size` counts bytes of originals, `questions` those asked of it.

    `documents` counts all of them, whatever their state; `model` is None until one was read.
    """

    base_id: str
    name: str
    description: str
    category: str
    settings: Mapping[str, Any]
    model: str | None
    generation_id: int | None
    documents: int
    pending: int
    processing: int
    ready: int
    failed: int
    chunks: int
    size: int
    questions: int
    accesses: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChanges:
    """What to change; None leaves it. Of `settings` a None gives one back to the server."""

    name: str | None = None
    description: str | None = None
    category: str | None = None
    settings: Mapping[str, object] | None = None


async def listing(
    database: Database,
    caller: Caller,
    *,
    limit: int = 50,
    offset: int = 0,
    sort: BaseSort = "name",
    descending: bool = False,
    search: str | None = None,
    category: str | None = None,
) -> tuple[list[BaseDetails], int]:
    """A page of the bases that the caller may see, and how many there are in all."""
    values = _asked(caller) | {
        "limit": limit,
        "offset": offset,
        "sort": sort,
        "descending": descending,
        "search": search or None,
        "category": category,
    }
    async with database.connection() as connection:
        return await _listed(connection, values)


async def one(database: Database, caller: Caller, base_id: str) -> BaseDetails:
    """Raises BaseNotFound: not there, or not for this caller."""
    async with database.connection() as connection:
        return await _one(connection, caller, base_id)


async def check(database: Database, caller: Caller, base_id: str) -> None:
    """Raises BaseNotFound: not there, or not for this caller."""
    caller.check_bases([base_id])
    async with database.connection() as connection:
        values = {"base_id": base_id}
        found = (
            storable(base_id) and await (await connection.execute(QUERIES["base_there"], values)).fetchone()
        )
    if not found:
        raise BaseNotFound("access.base", base_id=base_id)


async def opened(database: Database, caller: Caller, base_id: str) -> BaseDetails:
    """`one`, which counts as an access."""
    async with database.transaction() as connection:
        details = await _one(connection, caller, base_id)
        await connection.execute(QUERIES["count_base_access"], {"base_id": base_id})
    return details


async def create(
    database: Database, caller: Caller, settings: Settings, *, name: str, changes: BaseChanges
) -> BaseDetails:
    """Make a base.

    Raises:
        Forbidden: not for this caller. Conflict: the name is taken. InputError: a value cannot be kept.
    """
    caller.require("admin")
    base_id, name = secrets.token_hex(8), checked_name(name)
    async with database.transaction() as connection:
        made = await connection.execute(QUERIES["insert_base"], {"base_id": base_id, "name": name})
        if not made.rowcount:
            raise Conflict("base.taken", name=name)
        await _write(connection, settings, base_id, changes)
        await audit.record(
            connection, caller, "base.create", base_id=base_id, subject=base_id, detail={"name": name}
        )
        return await _one(connection, caller, base_id)


async def change(
    database: Database, caller: Caller, settings: Settings, base_id: str, changes: BaseChanges
) -> BaseDetails:
    """Raises Forbidden, BaseNotFound, Conflict, InputError as `create` does."""
    caller.require("admin")
    caller.check_bases([base_id])
    try:
        async with database.transaction() as connection:
            if changes.name is not None:
                renamed = {"base_id": base_id, "name": checked_name(changes.name)}
                await connection.execute(QUERIES["rename_base"], renamed)
            await _write(connection, settings, base_id, changes)
            given = ("name", "description", "category", "settings")
            changed = [key for key in given if getattr(changes, key) is not None]
            await audit.record(
                connection,
                caller,
                "base.update",
                base_id=base_id,
                subject=base_id,
                detail={"changed": changed},
            )
            return await _one(connection, caller, base_id)
    except UniqueViolation as error:
        raise Conflict("base.taken", name=changes.name) from error


async def _write(connection: Connection, settings: Settings, base_id: str, changes: BaseChanges) -> None:
    description = changes.description
    if description is not None and (len(description) > MAX_DESCRIPTION or not storable(description)):
        raise InputError("base.description", limit=MAX_DESCRIPTION)
    await connection.execute(QUERIES["insert_details"], {"base_id": base_id})
    row = await (await connection.execute(QUERIES["own_settings_locked"], {"base_id": base_id})).fetchone()
    if row is None:
        raise BaseNotFound("access.base", base_id=base_id)
    own = {**row[0], **(changes.settings or {})}
    own = {name: value for name, value in own.items() if value is not None}
    await anyio.to_thread.run_sync(with_own, settings, own)
    values = {
        "base_id": base_id,
        "description": description,
        "category": None if changes.category is None else checked_category(changes.category),
        "settings": Jsonb(own),
    }
    await connection.execute(QUERIES["write_details"], values)


def _asked(caller: Caller) -> dict[str, object]:
    return {
        "bases": None if caller.bases is None else sorted(caller.bases),
        "limit": 1,
        "offset": 0,
        "sort": "name",
        "descending": False,
        "search": None,
        "category": None,
    }


async def _one(connection: Connection, caller: Caller, base_id: str) -> BaseDetails:
    caller.check_bases([base_id])
    found: list[BaseDetails] = []
    if storable(base_id):
        found, _ = await _listed(connection, _asked(caller) | {"bases": [base_id]})
    if not found:
        raise BaseNotFound("access.base", base_id=base_id)
    return found[0]


async def _listed(connection: Connection, values: Mapping[str, object]) -> tuple[list[BaseDetails], int]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        rows = await (await cursor.execute(QUERIES["list_base_details"], values)).fetchall()
    total = rows[0].pop("total")
    return [
        BaseDetails(**{name: value for name, value in row.items() if name not in ("total", "place")})
        for row in rows
        if row["base_id"] is not None
    ], total
