"""Generations of a base: what its texts are split into and embedded with, once.

One is active and answers. Another is built beside it, document by document, and takes its
place in one transaction; the earlier one stays until the next swap, so that the same swap
leads back.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias, cast

import anyio
import anyio.to_thread
from psycopg.rows import class_row

from ragstone.errors import BaseNotFound, ModelMismatch, StoreError, StoreUnavailable
from ragstone.postgres.pool import Connection, Database
from ragstone.store.batch import batch
from ragstone.store.checks import checked_chunks
from ragstone.store.enabling import disabled_of
from ragstone.store.hnsw import VectorIndexes
from ragstone.store.models import Models
from ragstone.store.statements import QUERIES, Model, Statement
from ragstone.store.writing import Guard, Rows, bound, opened, put_in, unguarded
from ragstone.types import Chunk, Document, Vectors, digest

State: TypeAlias = Literal["active", "building", "retired", "abandoned"]

# With the base's id, names the lock under which a generation is built.
_LOCK = 0x52_47_47
_COLLECTED_AT_ONCE = 100
_CLEAN_UP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One generation and what it holds.

    `settings` name how texts were split and indexed; empty where several ways or none are known.
    """

    generation_id: int
    base_id: str
    model: str
    dimension: int
    settings: str
    state: State
    created_at: datetime
    documents: int
    chunks: int

    def made_with(self, model: str, settings: str) -> bool:
        return bool(settings) and (self.model, self.settings) == (model, settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A document of the base that a generation does not have, or not as it is now."""

    document_id: str
    uri: str
    title: str


class Generations:
    """The generations in one database; `PostgresStore.generations`."""

    def __init__(self, database: Database, models: Models, indexes: VectorIndexes) -> None:
        self._database = database
        self._models = models
        self._indexes = indexes
        self._guard = unguarded

    def guarded(self, guard: Guard) -> Generations:
        """As `PostgresStore.guarded`: for `bind`, `write` and `swap`."""
        generations = copy.copy(self)
        generations._guard = guard
        return generations

    async def of_base(self, base_id: str) -> list[Generation]:
        """All of them, the oldest first."""
        async with self._database.connection() as connection:
            return await _of_base(connection, base_id)

    async def active(self, base_id: str) -> Generation | None:
        """The one that answers; None before the first document."""
        return _in_state(await self.of_base(base_id), "active")

    async def bind(self, base_id: str, model: str, dimension: int, *, settings: str) -> None:
        """Documents made with `model` and `settings` are about to enter the active generation.

        One without chunks takes both. One made with other settings has none from then on.

        Raises:
            ModelMismatch: it holds vectors of another model.
            BaseNotFound: the base has just been removed.
        """
        known = await self._models.registered(model, dimension, base_id=base_id)

        async def write(connection: Connection) -> None:
            await self._guard(connection)
            await bound(connection, base_id, known, settings=settings)

        await self._database.run_retrying(write)

    # --- building --------------------------------------------------------------------

    @asynccontextmanager
    async def alone(self, base_id: str) -> AsyncGenerator[None]:
        """No other process builds or collects in this base meanwhile; a process that dies lets go.

        Raises:
            StoreUnavailable: another one is at it.
        """
        values = {"key": _LOCK, "base_id": base_id}
        async with self._database.beside() as connection:
            row = await (await connection.execute(QUERIES["lock_building"], values)).fetchone()
            if row is None or not row[0]:
                raise StoreUnavailable("store.generation_busy")
            await connection.commit()
            try:
                yield
            finally:
                if not connection.broken:
                    with anyio.move_on_after(_CLEAN_UP_S, shield=True):
                        await connection.execute(QUERIES["unlock_building"], values)

    async def begin(self, base_id: str, model: str, dimension: int, *, settings: str) -> Generation:
        """A generation to build: one that was begun or retired with the same, else a new one.

        What was begun with anything else is abandoned. Call it within `alone`.
        """
        known = await self._models.registered(model, dimension)
        async with self._database.transaction() as connection:
            await _lock_base(connection, base_id)
            held = await _of_base(connection, base_id)
            for state in ("building", "retired"):
                earlier = _in_state(held, state)
                if earlier is not None and earlier.made_with(model, settings):
                    return earlier
                if state == "building":
                    await _change(connection, base_id, "building", "abandoned")
            generation_id = await opened(connection, base_id, known, state="building", settings=settings)
        return next(item for item in await self.of_base(base_id) if item.generation_id == generation_id)

    async def missing(self, generation_id: int, *, after: str = "", limit: int = 500) -> list[Missing]:
        """Documents that are still to be built, from the id `after` on."""
        values = {"generation_id": generation_id, "after": after, "limit": limit}
        async with (
            self._database.connection() as connection,
            connection.cursor(row_factory=class_row(Missing)) as cursor,
        ):
            return await (await cursor.execute(QUERIES["missing_documents"], values)).fetchall()

    async def count_missing(self, generation_id: int) -> int:
        async with self._database.connection() as connection:
            return await _count_missing(connection, generation_id)

    async def write(
        self, generation: Generation, document: Document, chunks: Sequence[Chunk], vectors: Vectors
    ) -> bool:
        """Put what was made of a stored document into a generation that is not the active one.

        Chunks get ids of their own, so that both generations can be read. False when the
        document has gone or is of another revision by now, or is there already.

        Raises:
            ModelMismatch: the vectors are not of the generation's model.
        """
        if vectors.model != generation.model:
            raise ModelMismatch(
                "store.model", base=generation.base_id, stored=generation.model, model=vectors.model
            )
        kept = await anyio.to_thread.run_sync(checked_chunks, document, list(chunks), vectors)
        model = await self._models.registered(vectors.model, vectors.dimension)
        rows = await anyio.to_thread.run_sync(_rows, generation, document, kept, vectors, model)
        return await self._database.run_retrying(partial(_write, generation.generation_id, rows, self._guard))

    async def index(self, generation: Generation) -> None:
        """See that the model has its nearest-neighbour index when it has many vectors."""
        model = await self._models.registered(generation.model, generation.dimension)
        await self._indexes.grown(model, by=max(1_000, generation.chunks))

    # --- swapping and collecting -------------------------------------------------------

    async def swap(self, generation: Generation) -> int:
        """Let this generation answer in place of the active one, which is kept as `retired`.

        One transaction: writers of the base wait for it, searches see the one or the other.
        Returns how many documents it does not have; when there are any, nothing is changed.
        """
        base_id, generation_id = generation.base_id, generation.generation_id
        async with self._database.transaction() as connection:
            await self._guard(connection)
            await _lock_base(connection, base_id)
            if missing := await _count_missing(connection, generation_id):
                return missing
            # Two of one base are never in the same state, not even for a moment.
            await _set(connection, generation_id, "abandoned")
            await _change(connection, base_id, "retired", "abandoned")
            await _change(connection, base_id, "active", "retired")
            await _set(connection, generation_id, "active")
        return 0

    async def collect(self, base_id: str, *, states: Sequence[State] = ()) -> int:
        """Delete abandoned generations, and those in `states`; returns how many. Within `alone`.

        Raises:
            StoreError: `states` names the active one.
        """
        if "active" in states:
            raise StoreError("store.generation_active")
        async with self._database.transaction() as connection:
            for state in states:
                await _change(connection, base_id, state, "abandoned")
        gone = [item for item in await self.of_base(base_id) if item.state == "abandoned"]
        for generation in gone:
            await self._delete(generation.generation_id)
        return len(gone)

    async def _delete(self, generation_id: int) -> None:
        """A few documents a transaction, so that nobody waits for long."""
        values = {"generation_id": generation_id, "limit": _COLLECTED_AT_ONCE}
        more = True
        while more:
            async with self._database.connection() as connection:
                more = (await connection.execute(QUERIES["collect_documents"], values)).rowcount > 0
        async with self._database.connection() as connection:
            await connection.execute(QUERIES["delete_generation"], values)


async def _of_base(connection: Connection, base_id: str) -> list[Generation]:
    async with connection.cursor(row_factory=class_row(Generation)) as cursor:
        return await (await cursor.execute(QUERIES["generations"], {"base_id": base_id})).fetchall()


def _in_state(generations: Sequence[Generation], state: str) -> Generation | None:
    return next((item for item in generations if item.state == state), None)


def _rows(
    generation: Generation, document: Document, chunks: Sequence[Chunk], vectors: Vectors, model: Model
) -> Rows:
    salt = str(generation.generation_id)
    renamed = [replace(chunk, chunk_id=digest(salt, chunk.chunk_id)) for chunk in chunks]
    return Rows.of(document, renamed, vectors, model)


async def _write(generation_id: int, rows: Rows, guard: Guard, connection: Connection) -> bool:
    await guard(connection)
    values = {"generation_id": generation_id, "document_id": rows.document.document_id}
    lock = Statement(QUERIES["lock_revision"], values, once=True)
    found, disabled = await batch(connection, [lock, disabled_of(rows.document)])
    if not found or found[0]["revision"] != rows.document.revision or found[0]["there"]:
        return False
    await put_in(connection, generation_id, rows, disabled=disabled)
    return True


async def _lock_base(connection: Connection, base_id: str) -> None:
    """Writers wait until the transaction ends."""
    if await (await connection.execute(QUERIES["lock_base"], {"base_id": base_id})).fetchone() is None:
        raise BaseNotFound("store.base_gone", base=base_id)


async def _count_missing(connection: Connection, generation_id: int) -> int:
    values = {"generation_id": generation_id}
    row = await (await connection.execute(QUERIES["count_missing"], values)).fetchone()
    return 0 if row is None else cast(int, row[0])


async def _set(connection: Connection, generation_id: int, state: State) -> None:
    await connection.execute(QUERIES["set_state"], {"generation_id": generation_id, "state": state})


async def _change(connection: Connection, base_id: str, state: State, to: State) -> None:
    await connection.execute(QUERIES["change_state"], {"base_id": base_id, "state": state, "to": to})
