"""Knowledge bases: names to ids, listing, removal.

A base has a name that people use and may change, and an id that never changes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from psycopg.rows import class_row

from ragstone.errors import BaseNotFound, InputError
from ragstone.postgres.pool import Database
from ragstone.postgres.queries import Queries

QUERIES = Queries.load(files("ragstone.kb") / "sql")
MAX_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseInfo:
    """A base and what it holds, as the generation that answers has it.

    `model` and `generation_id` are None until the first document is in.
    """

    base_id: str
    name: str
    model: str | None
    documents: int
    chunks: int
    created_at: datetime
    generation_id: int | None = None


def checked_name(name: str) -> str:
    """The name without outer spaces; InputError when it cannot be one."""
    name = name.strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InputError("kb.base_name", name=repr(name)[:80])
    return name


async def ensure(database: Database, name: str) -> str:
    """The id of the base with this name, made when it is not there."""
    name = checked_name(name)
    ids = await ids_by_name(database)
    if name not in ids:
        async with database.connection() as connection:
            await connection.execute(QUERIES["insert_base"], {"base_id": secrets.token_hex(8), "name": name})
        ids = await ids_by_name(database)
    return ids[name]


async def resolve(database: Database, names: Sequence[str]) -> tuple[str, ...]:
    """Base ids of these names, each once, in their order.

    Raises:
        BaseNotFound: names the bases that do exist.
    """
    ids = await ids_by_name(database)
    for name in names:
        if name.strip() not in ids:
            if not ids:
                raise BaseNotFound("kb.base_none", name=name)
            raise BaseNotFound("kb.base_not_found", name=name, existing=", ".join(ids))
    return tuple(dict.fromkeys(ids[name.strip()] for name in names))


async def ids_by_name(database: Database) -> dict[str, str]:
    async with database.connection() as connection:
        rows = await (await connection.execute(QUERIES["base_ids"])).fetchall()
    return {name: base_id for base_id, name in rows}


async def listing(database: Database) -> list[BaseInfo]:
    """Every base by name."""
    async with (
        database.connection() as connection,
        connection.cursor(row_factory=class_row(BaseInfo)) as cursor,
    ):
        return await (await cursor.execute(QUERIES["list_bases"])).fetchall()
