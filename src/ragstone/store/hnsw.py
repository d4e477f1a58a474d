"""The nearest-neighbour index of a model, made when the model has many vectors."""

from __future__ import annotations

import logging

import anyio
from psycopg import errors
from psycopg.sql import Identifier, Literal

from ragstone.errors import StoreError
from ragstone.postgres.pool import Connection, Database
from ragstone.store.statements import MAX_INDEXED_DIMENSION, QUERIES, Model

_LOGGER = logging.getLogger(__name__)

# With the model's id, names the lock under which an index is built.
_LOCK = 0x52_47_58
_CHECK_EVERY = 1_000
_CLEAN_UP_S = 5.0


class VectorIndexes:
    """Sees after each write whether a model needs its index, and builds it once.

    Search does without an index, more slowly; so a build that fails is reported to the
    log and tried again later, and never fails the write.
    """

    def __init__(self, database: Database, *, exact_rows: int) -> None:
        self._database = database
        self._exact_rows = exact_rows
        self._grown: dict[int, int] = {}
        self._done: set[int] = set()

    async def grown(self, model: Model, *, by: int) -> None:
        """Take note of `by` new vectors; build the index when the model has more than `exact_rows`."""
        if model.model_id in self._done or model.dimension > MAX_INDEXED_DIMENSION:
            return
        grown = self._grown.get(model.model_id, self._check_every) + by
        self._grown[model.model_id] = grown
        if grown < self._check_every:
            return
        self._grown[model.model_id] = 0
        try:
            if await self._ensure(model):
                self._done.add(model.model_id)
        except (StoreError, errors.Error) as error:
            _LOGGER.warning("index of %s was not built, search scans instead: %s", model.identity, error)

    @property
    def _check_every(self) -> int:
        return min(_CHECK_EVERY, max(1, self._exact_rows))

    async def _ensure(self, model: Model) -> bool:
        """Whether the index is there in the end."""
        async with self._database.connection() as connection:
            if await _valid(connection, model):
                return True
            values = {"model_id": model.model_id, "limit": self._exact_rows + 1}
            row = await (await connection.execute(QUERIES["count_vectors"], values)).fetchone()
            if row is None or row[0] <= self._exact_rows:
                return False
        # CONCURRENTLY runs outside a transaction.
        async with self._database.connection() as connection:
            await connection.set_autocommit(True)
            try:
                return await _build(connection, model)
            finally:
                with anyio.move_on_after(_CLEAN_UP_S, shield=True):
                    await _as_before(connection)


async def _valid(connection: Connection, model: Model) -> bool | None:
    """None: no index. False: the remains of a build that did not finish."""
    row = await (await connection.execute(QUERIES["index_state"], {"name": model.index_name})).fetchone()
    return None if row is None else bool(row[0])


async def _build(connection: Connection, model: Model) -> bool:
    lock = {"key": _LOCK, "model_id": model.model_id}
    row = await (await connection.execute(QUERIES["lock_index"], lock)).fetchone()
    if row is None or not row[0]:
        return False  # another process builds it
    try:
        name = Identifier(model.index_name)
        if await _valid(connection, model) is False:
            await connection.execute(QUERIES["drop_index"].format(name=name))
        await connection.execute(QUERIES["index_settings"])
        await connection.execute(
            QUERIES["create_index"].format(
                name=name, dimension=Literal(model.dimension), model_id=Literal(model.model_id)
            )
        )
        return True
    finally:
        # A lost connection has given the lock back by itself.
        if not connection.broken:
            with anyio.move_on_after(_CLEAN_UP_S, shield=True):
                await connection.execute(QUERIES["unlock_index"], lock)


async def _as_before(connection: Connection) -> None:
    if not connection.closed:
        await connection.execute(QUERIES["reset_index_settings"])
        await connection.set_autocommit(False)
