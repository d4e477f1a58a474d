"""Vector search through an index outside PostgreSQL, with the result judged inside.

The index only proposes chunk ids. Whether they are there, in scope and how near they
are, PostgreSQL says; it also searches what the index may not have yet. Where too few
are left the index is asked for more, and in the end PostgreSQL answers alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from psycopg.rows import dict_row

from ragstone.errors import RagstoneError, StoreError, StoreUnavailable
from ragstone.postgres.pool import Connection, Database
from ragstone.protocols import VectorIndex
from ragstone.store.outbox import FRESH_S, Outbox, collection_of
from ragstone.store.searching import Candidates, Search
from ragstone.store.statements import QUERIES
from ragstone.trace import degrade, note
from ragstone.types import Hit

_LOGGER = logging.getLogger(__name__)

SPARE = 20
WIDER = 8
MAX_REACH = 10_000
"""The index is asked for twice the hits and `SPARE` more; once again for `WIDER` times as many, and
never for more than `MAX_REACH`, which every index grants."""

ANSWER_S = 5.0
"""The longest wait for the index. With `FRESH_S` it bounds what an answer may not know of."""

FRESH_ROWS = 10_000
"""Where the index has more than these yet to learn, PostgreSQL's own index is quicker than their scan."""

PAUSE_S = 30.0
"""After a failure the index is left alone for so long: each try would cost a question its time."""


@dataclass(frozen=True, slots=True)
class _Ready:
    index_id: int
    prefix: str
    waiting: int


class IndexedSearch:
    """Searches of one store that may go through `index`; its outbox is told after each write."""

    def __init__(self, database: Database, index: VectorIndex) -> None:
        self._database = database
        self._index = index
        self._failed_at: float | None = None
        self.outbox = Outbox(database, index)

    async def written(self) -> None:
        """After a write: tell the index, as far as it can be reached. Never fails the write."""
        if self._paused():
            return
        try:
            await self.outbox.drain()
        except RagstoneError as error:
            self._fail(error)

    async def run(self, search: Search) -> list[Hit]:
        """`search.run`, through the index where the scope is too large to be scanned."""
        if search.has_nearest:
            # What is known to be large has as many as are asked for, or else too few are found below.
            size = search.top_k if search.large else await self._database.run_retrying(search.count)
            if search.large or size > search.exact_rows:
                ready = await self._ready(search)
                found = await self._through(search, ready, size) if ready is not None else None
                if found is not None:
                    return found
        search.candidates = None
        return await self._database.run_retrying(search.run)

    async def _ready(self, search: Search) -> _Ready | None:
        """The copy that can answer; None where PostgreSQL is to answer."""
        if self._paused():
            degrade("index_failed")
            return None
        assert search.model is not None  # there are vectors of it
        values = {
            "identity": self._index.identity,
            "model_id": search.model.model_id,
            "fresh": FRESH_S,
            "limit": FRESH_ROWS + 1,
        }

        async def read(connection: Connection) -> _Ready | None:
            async with connection.cursor(row_factory=dict_row) as cursor:
                row = await (await cursor.execute(QUERIES["ready_copy"], values)).fetchone()
            return _Ready(**row) if row else None

        ready = await self._database.run_retrying(read)
        if ready is None:
            degrade("index_incomplete")
            return None
        return ready if ready.waiting <= FRESH_ROWS else None

    async def _through(self, search: Search, ready: _Ready, size: int) -> list[Hit] | None:
        reach = min(2 * search.top_k + SPARE, MAX_REACH)
        for limit in (reach, min(WIDER * reach, MAX_REACH)):
            asked_at = time.monotonic()
            ids = await self._proposed(search, ready, limit)
            if ids is None:
                return None
            search.candidates = Candidates(ready.index_id, ids, FRESH_S)
            found = await self._database.run_retrying(search.run)
            if time.monotonic() - asked_at > FRESH_S / 2:
                return None  # the outbox may no longer hold what the index did not know
            if search.near >= min(search.top_k, size):
                note(index=len(ids))
                return found
            if len(ids) < limit:
                return None
        return None

    async def _proposed(self, search: Search, ready: _Ready, limit: int) -> list[str] | None:
        """Ids that the index finds near; None when it fails."""
        assert search.vector is not None
        assert search.model is not None
        collection = collection_of(ready.prefix, search.model.model_id)
        bases: Sequence[str] | None = search.view.scope.bases
        try:
            with anyio.fail_after(ANSWER_S):
                return await self._index.search(collection, search.vector, bases=bases, top_k=limit)
        except (StoreError, TimeoutError) as error:
            self._fail(error)
            degrade("index_failed")
            return None

    def _paused(self) -> bool:
        return self._failed_at is not None and time.monotonic() - self._failed_at < PAUSE_S

    def _fail(self, error: Exception) -> None:
        # A database that fails is no fault of the index; the next call to it says so.
        if not isinstance(error, StoreUnavailable) or error.key.startswith("store."):
            self._failed_at = time.monotonic()
        _LOGGER.warning("vector index %s: %s", self._index.identity, error)
