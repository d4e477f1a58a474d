"""Keeps a vector index outside PostgreSQL equal to the table `vectors`.

Triggers, off until an index is registered, write the key of every vector that comes,
changes or goes into the table `outbox`, one row for each copy in `indexes`.
`Outbox.drain` reads what is true of these keys now and tells the index: put what is
there, drop what is not. So the order of changes does not matter, doing it twice is the
same as once, and a crash in the middle leaves the rows for the next time. A copy is told
by one process at a time.
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from psycopg.rows import dict_row

from ragstone.errors import StoreError
from ragstone.postgres.pool import Connection, Database
from ragstone.protocols import VectorIndex
from ragstone.store.encoding import read_halfvec
from ragstone.store.statements import QUERIES

_LOGGER = logging.getLogger(__name__)

BATCH = 1_000
"""Vectors told in one transaction."""

FRESH_S = 30
"""For so long a vector that the index took is searched in PostgreSQL too: the index may show it
later, or may have been asked before."""

_LOCK = 0x52_47_4F
_SWEEP_AFTER_S = 2 * FRESH_S

OnFilled: TypeAlias = Callable[[int, int], None]
"""Called with the vectors put so far and the number there are."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of the vectors in an index."""

    index_id: int
    prefix: str
    state: str

    def collection(self, model_id: int) -> str:
        return collection_of(self.prefix, model_id)


def collection_of(prefix: str, model_id: int) -> str:
    """One collection an embedding model, because the models differ in dimension."""
    return f"{prefix}_{model_id}"


class Outbox:
    """Tells one index what changed; safe to share among tasks and with other processes."""

    def __init__(self, database: Database, index: VectorIndex, *, batch: int = BATCH) -> None:
        self._database = database
        self._index = index
        self._batch = batch

    async def register(self) -> None:
        """See that changes are kept for this index from now on.

        Where there are no vectors yet the copy is complete; else `rebuild` has to fill it.

        Raises:
            StoreUnavailable: a writer held the table for too long; try again.
        """
        # One that another took the place of is only waiting to be removed.
        if not any(copy.state != "retired" for copy in await self._copies()):
            copy = await self._new_copy()
            if copy.state == "ready":
                await self._database.run_retrying(partial(_switch, copy))
        await self._sweep_retired()

    async def drain(self, *, wait: bool = False) -> int:
        """Tell the index all that waits; how many rows that were.

        What another process is telling at the moment is left to it, or with `wait` waited
        for.

        Raises:
            StoreError: the index or the database failed; what was not told still waits.
        """
        told = 0
        for copy in await self._copies():
            if copy.state != "retired":
                while count := await self._drain_batch(copy, wait=wait):
                    told += count
        return told

    async def waiting(self) -> int:
        """How many changes the index has yet to learn."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(QUERIES["count_waiting"], {"identity": self._index.identity})
            row = await cursor.fetchone()
        return row[0] if row else 0

    async def rebuild(self, on_filled: OnFilled | None = None) -> int:
        """Fill a new copy from PostgreSQL and let it take the old one's place; how many vectors it has.

        The old copy answers meanwhile. Goes on where an earlier call was interrupted.

        Raises:
            StoreError: the index or the database failed; the next call goes on from there.
        """
        copies = await self._copies("filling")
        copy = copies[0] if copies else await self._new_copy()
        filled, total = await self._filled(copy)
        while count := await self._fill_batch(copy):
            filled += count
            if on_filled is not None:
                on_filled(filled, max(total, filled))
        await self.drain(wait=True)
        await self._database.run_retrying(partial(_switch, copy))
        await self._sweep_retired()
        return filled

    # --- copies ----------------------------------------------------------------------

    async def _copies(self, state: str | None = None) -> list[Copy]:
        values = {"identity": self._index.identity, "state": state}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(QUERIES["index_copies"], values)).fetchall()
        return [Copy(*row) for row in rows]

    async def _new_copy(self) -> Copy:
        values = {"identity": self._index.identity, "prefix": f"ragstone_{secrets.token_hex(6)}"}
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["lock_writers_timeout"])
            await connection.execute(QUERIES["lock_writers"])
            same = {"identity": self._index.identity, "state": "filling"}
            # Another process may have begun while this one waited.
            row = await (await connection.execute(QUERIES["index_copies"], same)).fetchone()
            if row is None:
                row = await (await connection.execute(QUERIES["register_copy"], values)).fetchone()
            assert row is not None  # just inserted
            await connection.execute(QUERIES["feed"])
            return Copy(*row)

    async def _sweep_retired(self) -> None:
        """Forget copies that another took the place of, and remove their collections."""
        async with self._database.connection() as connection:
            rows = await (await connection.execute(QUERIES["retired"])).fetchall()
        if not rows:
            return
        try:
            for _, identity, prefix, model_id in rows:
                # The collections of another server stay: it is not the one we are connected to.
                if identity == self._index.identity and model_id is not None:
                    await self._index.clear(collection_of(prefix, model_id))
        except StoreError as error:
            # Not forgotten: the next sweep tries again.
            _LOGGER.warning("an earlier copy in %s was not removed: %s", self._index.identity, error)
            rows = [row for row in rows if row[1] != self._index.identity]
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["forget_copies"], {"index_ids": [row[0] for row in rows]})

    # --- telling ---------------------------------------------------------------------

    async def _drain_batch(self, copy: Copy, *, wait: bool) -> int:
        async with self._database.transaction() as connection:
            lock = QUERIES["lock_copy" if wait else "try_lock_copy"]
            row = await (await connection.execute(lock, {"key": _LOCK, "index_id": copy.index_id})).fetchone()
            if row is None or row[0] is False:
                return 0
            values = {"index_id": copy.index_id, "limit": self._batch, "kept": _SWEEP_AFTER_S}
            rows = await _read(connection, "waiting", values)
            await connection.execute(QUERIES["sweep_outbox"], values)
            if rows:
                await self._tell(copy, rows)
                await connection.execute(QUERIES["took"], {"seqs": [row["seq"] for row in rows]})
        return len(rows)

    async def _fill_batch(self, copy: Copy) -> int:
        # Under the same lock as a drain: a vector that is removed after it was read here is dropped later.
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["lock_copy"], {"key": _LOCK, "index_id": copy.index_id})
            values: dict[str, object] = {"index_id": copy.index_id, "limit": self._batch}
            rows = await _read(connection, "fill_from", values)
            if rows:
                await self._tell(copy, rows)
                reached = {**values, "chunk_id": rows[-1]["chunk_id"], "count": len(rows)}
                await connection.execute(QUERIES["filled_to"], reached)
        return len(rows)

    async def _filled(self, copy: Copy) -> tuple[int, int]:
        async with self._database.connection() as connection:
            cursor = await connection.execute(QUERIES["vectors_in_all"], {"index_id": copy.index_id})
            row = await cursor.fetchone()
        return (row[1] or 0, row[0]) if row else (0, 0)

    async def _tell(self, copy: Copy, rows: Sequence[dict[str, Any]]) -> None:
        gone: defaultdict[int, list[str]] = defaultdict(list)
        there: defaultdict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
        for row in rows:
            model_id, chunk_id = cast(int, row["model_id"]), cast(str, row["chunk_id"])
            if row["embedding"] is None:
                gone[model_id].append(chunk_id)
            else:
                there[model_id][chunk_id] = row
        for model_id, ids in gone.items():
            await self._index.drop(copy.collection(model_id), ids)
        for model_id, held in there.items():
            await self._index.put(
                copy.collection(model_id),
                list(held),
                np.stack([read_halfvec(cast(bytes, row["embedding"])) for row in held.values()]),
                bases=[cast(str, row["base_id"]) for row in held.values()],
            )


async def _switch(copy: Copy, connection: Connection) -> None:
    """`copy` answers from here on; every other is to be removed."""
    values = {"index_id": copy.index_id}
    await connection.execute(QUERIES["retire_others"], values)
    await connection.execute(QUERIES["make_ready"], values)


async def _read(connection: Connection, name: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row, binary=True) as cursor:
        return await (await cursor.execute(QUERIES[name], values)).fetchall()
