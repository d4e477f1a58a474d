"""A store in PostgreSQL with pgvector: documents, chunks, vectors and full text in one engine.

Replacing a document is one transaction, so a reader sees the old version or the new
one. Vector search scans small scopes exactly and walks an HNSW index in large ones, by
our own count of the rows in scope.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from psycopg import errors
from psycopg.rows import dict_row

from ragstone.errors import BaseNotFound, InvalidStage, NotFound
from ragstone.metadata import checked_texts
from ragstone.postgres.migrate import migrate, prepare_server
from ragstone.postgres.pool import Connection, Database
from ragstone.protocols import Fuser, VectorIndex
from ragstone.store import deletion, enabling, encoding, writing
from ragstone.store.bm25 import MAX_TERMS
from ragstone.store.checks import (
    checked_chunks,
    checked_reach,
    checked_scope,
    query_vector,
    storable,
    storable_ids,
)
from ragstone.store.frequencies import Frequencies, LargeScopes
from ragstone.store.generations import Generations
from ragstone.store.hnsw import VectorIndexes
from ragstone.store.hybrid import HybridRule
from ragstone.store.indexed import IndexedSearch
from ragstone.store.models import Models
from ragstone.store.outbox import OnFilled
from ragstone.store.searching import FETCH, Search, placed
from ragstone.store.statements import COLUMNS, QUERIES, Sql, View, count_chunks
from ragstone.terms import analyze
from ragstone.types import Chunk, DeletionReport, Document, Hit, Scope, Vectors, checked_top_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT_ROWS = 10_000
"""A scan of a base of as many rows takes about 5 ms of CPU (0.5 µs a row of 384 dimensions) and misses
nothing. Rows that a filter picks out of many more take several times as long. Beyond, HNSW is quicker."""

DELETED_AT_ONCE = 200
"""Documents of one transaction; others that want to write them wait for its end."""

_NEIGHBOURS = QUERIES["neighbours"].format(columns=COLUMNS)


class PostgresStore:
    """Implements `protocols.Store`. Safe to share among tasks of one event loop.

    Made by `PostgresStore.open`, which brings the tables up to date. The database is
    the caller's to close. Chunks of equal score come by uri, index and age of
    their base. A vector of length 0 scores 0 and stands last; through the HNSW index it is
    found only when the index has too few other rows.

    `exact_rows` is the largest scope that is scanned without the index. A model with
    more vectors than that gets its index within the next 1,000 vectors written; the
    `replace` that brings it about waits for it, readers and other writers do not.

    Searches and `count` see the generation that answers in each base; with `generation_id`
    they see that one alone, as a check before a swap wants to. `indexed` lets searches of
    large scopes go through an index outside the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        exact_rows: int = EXACT_ROWS,
        generation_id: int | None = None,
        indexed: IndexedSearch | None = None,
    ) -> None:
        self._database = database
        self._indexed = indexed
        self._models = Models(database)
        self._exact_rows = exact_rows
        self._generation_id = generation_id
        self._indexes = VectorIndexes(database, exact_rows=exact_rows)
        self._frequencies = Frequencies(database, exact_rows=exact_rows, generation_id=generation_id)
        self._large = LargeScopes()
        self._guard = writing.unguarded
        self.generations = Generations(database, self._models, self._indexes)

    @classmethod
    async def open(
        cls, database: Database, *, exact_rows: int = EXACT_ROWS, index: VectorIndex | None = None
    ) -> PostgresStore:
        """The store in `database`, its tables made or migrated where needed.

        `index`, the caller's to close, is kept equal to the vectors and need not be
        reachable: PostgreSQL answers for it. One that was not there before is filled by
        `rebuild_index`.

        Raises:
            StoreIncompatible: an old server or pgvector, or tables newer than this code.
        """
        async with database.connection() as connection:
            await prepare_server(connection)
            await migrate(connection, "library", files("ragstone.store") / "migrations")
        if index is None:
            return cls(database, exact_rows=exact_rows)
        indexed = IndexedSearch(database, index)
        await indexed.outbox.register()
        return cls(database, exact_rows=exact_rows, indexed=indexed)

    async def rebuild_index(self, on_filled: OnFilled | None = None) -> int:
        """Fill the index outside anew from the vectors here; how many it holds then.

        Searches go on meanwhile, through the earlier copy or without one. Goes on where an
        earlier call was interrupted. `on_filled` is called with (vectors done, in all).

        Raises:
            InvalidStage: the store has no index outside.
            StoreError: index or database failed; the next call goes on from there.
        """
        if self._indexed is None:
            raise InvalidStage("store.no_index")
        return await self._indexed.outbox.rebuild(on_filled)

    def of_generation(self, generation_id: int) -> PostgresStore:
        """The same store as one generation has it, without an index outside."""
        return PostgresStore(self._database, exact_rows=self._exact_rows, generation_id=generation_id)

    def guarded(self, guard: writing.Guard) -> PostgresStore:
        """The same store for one writer: `guard` comes first in each transaction that writes.

        What it raises is raised by the call, and nothing is written. It may be asked twice.
        """
        store = copy.copy(self)
        store._guard = guard
        store.generations = self.generations.guarded(guard)
        return store

    # --- writing ---------------------------------------------------------------------

    async def replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        kept = await anyio.to_thread.run_sync(checked_chunks, document, list(chunks), vectors)
        model = await self._models.registered(vectors.model, vectors.dimension, base_id=document.base_id)
        rows = await anyio.to_thread.run_sync(writing.Rows.of, document, kept, vectors, model)
        try:
            # Twice is the same as once: the second time the revision is already there.
            written = await self._database.run_retrying(partial(writing.replace, rows, model, self._guard))
        except errors.UniqueViolation as error:
            raise _taken(error, document) from error
        except errors.ForeignKeyViolation as error:
            raise BaseNotFound("store.base_gone", base=document.base_id) from error
        if written:
            await self._indexes.grown(model, by=len(kept))
            await self.tell_index()
        return written

    async def delete(self, document_ids: Sequence[str]) -> DeletionReport:
        """As in the protocol, 200 documents a transaction: when it is stopped, those stay gone."""
        checked_texts(document_ids, "document_ids")
        report = deletion.report({})
        ids = sorted(storable_ids(dict.fromkeys(document_ids)))
        for start in range(0, len(ids), DELETED_AT_ONCE):
            async with self._database.connection() as connection:
                await self._guard(connection)
                report += await deletion.delete(connection, ids[start : start + DELETED_AT_ONCE])
            await self.tell_index()
        return report

    async def set_enabled(self, chunk_ids: Sequence[str], enabled: bool) -> int:
        checked_texts(chunk_ids, "chunk_ids")
        ids = storable_ids(dict.fromkeys(chunk_ids))

        async def mark(connection: Connection) -> int:
            await self._guard(connection)
            return await enabling.set_enabled(connection, ids, enabled)

        known = await self._database.run_retrying(mark)
        await self.tell_index()
        return known

    async def tell_index(self) -> None:
        """Tell the index outside what changed, where there is one; after writes of another way."""
        if self._indexed is not None:
            await self._indexed.written()

    async def proof_of_deletion(self, document_id: str) -> deletion.Proof:
        """Look through every table for rows of a document that was deleted.

        Raises:
            NotFound: no deletion of this document is on record.
        """
        if not storable(document_id):
            raise NotFound("store.not_deleted", document_id=repr(document_id))
        async with self._database.connection() as connection:
            return await deletion.proof(connection, document_id)

    # --- searching -------------------------------------------------------------------

    async def search_vector(self, vectors: Vectors, *, scope: Scope, top_k: int) -> list[Hit]:
        return await self._search(vectors, None, scope, top_k)

    async def search_text(self, text: str, *, scope: Scope, top_k: int) -> list[Hit]:
        return await self._search(None, text, scope, top_k)

    async def search_hybrid(
        self,
        text: str,
        vectors: Vectors,
        *,
        scope: Scope,
        top_k: int,
        fuse: Fuser,
        candidates: int,
        compared: int = 0,
    ) -> list[Hit]:
        rule = HybridRule(vectors, fuse, top_k, compared)
        return await self._search(vectors, text, scope, candidates, rule)

    async def _search(
        self,
        vectors: Vectors | None,
        text: str | None,
        scope: Scope,
        top_k: int,
        hybrid: HybridRule | None = None,
    ) -> list[Hit]:
        view, top_k = self._view(scope), checked_top_k(top_k)
        search = Search(view, top_k, exact_rows=self._exact_rows, hybrid=hybrid)
        if vectors is not None:
            search.vector = query_vector(vectors)
            search.identity = vectors.model
            search.model = await self._models.known(vectors.model, vectors.dimension)
        if text is not None:
            search.terms = list(dict.fromkeys(analyze(text)))[:MAX_TERMS]
            search.known = await self._frequencies.of(view.scope.bases, search.terms)
        known_large = search.model is not None and self._large.holds(search.model.model_id, view)
        search.large = known_large
        if self._indexed is None:
            found = await self._database.run_retrying(search.run)
        else:
            found = await self._indexed.run(search)
        if search.model is not None and search.large and not known_large:
            self._large.add(search.model.model_id, view)
        return found

    def _view(self, scope: Scope) -> View:
        return View(scope=checked_scope(scope), generation_id=self._generation_id)

    # --- reading ---------------------------------------------------------------------

    async def fetch(self, chunk_ids: Sequence[str]) -> list[Hit]:
        checked_texts(chunk_ids, "chunk_ids")
        hits = await self._hits(FETCH, {"chunk_ids": storable_ids(dict.fromkeys(chunk_ids))})
        found = {hit.chunk.chunk_id: hit for hit in hits}
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]

    async def neighbours(self, chunk_id: str, n: int) -> list[Hit]:
        n = checked_reach(n)
        if not storable(chunk_id):
            return []
        return await self._hits(_NEIGHBOURS, {"chunk_id": chunk_id, "n": n})

    async def document(self, document_id: str) -> Document | None:
        if not storable(document_id):
            return None
        rows = await self._rows(QUERIES["document"], {"document_id": document_id})
        return encoding.read_document(rows[0]) if rows else None

    async def revisions(self, base_id: str, *, uri: str | None = None) -> Mapping[str, str]:
        if not storable(base_id) or not storable(uri or ""):
            return {}
        query = QUERIES["revisions" if uri is None else "revisions_of"]
        rows = await self._rows(query, {"base_id": base_id, "uri": uri})
        return {cast(str, row["uri"]): cast(str, row["revision"]) for row in rows}

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        """As in the protocol; values come back in the half precision they are stored in."""
        if not hashes or not storable(model):
            return {}
        values = {"identity": model, "hashes": storable_ids(dict.fromkeys(hashes))}
        rows = await self._rows(QUERIES["known_vectors"], values, binary=True)
        return {
            cast(str, row["embedding_hash"]): encoding.read_halfvec(cast(bytes, row["embedding"]))
            for row in rows
        }

    async def token_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.uint8]]:
        if not hashes or not storable(model):
            return {}
        values = {"identity": model, "hashes": storable_ids(dict.fromkeys(hashes))}
        rows = await self._rows(QUERIES["token_vectors"], values, binary=True)
        return {
            cast(str, row["embedding_hash"]): encoding.read_tokens(
                cast(bytes, row["tokens"]), cast(int, row["dimension"])
            )
            for row in rows
        }

    async def count(self, scope: Scope) -> int:
        statement = count_chunks(self._view(scope))
        rows = await self._rows(statement.sql, statement.values)
        return cast(int, rows[0]["count"])

    async def _hits(self, sql: Sql, values: Mapping[str, object]) -> list[Hit]:
        async def read(connection: Connection) -> list[Hit]:
            async with connection.cursor(row_factory=dict_row) as cursor:
                rows = await (await cursor.execute(sql, values)).fetchall()
            return await placed(connection, rows)

        return await self._database.run_retrying(read)

    async def _rows(
        self, sql: Sql, values: Mapping[str, object] | Sequence[object], *, binary: bool = False
    ) -> list[dict[str, Any]]:
        async def read(connection: Connection) -> list[dict[str, Any]]:
            async with connection.cursor(row_factory=dict_row, binary=binary) as cursor:
                return await (await cursor.execute(sql, values)).fetchall()

        return await self._database.run_retrying(read)

    async def aclose(self) -> None:
        """Nothing of its own is open; the database stays the caller's."""


def _taken(error: errors.UniqueViolation, document: Document) -> InvalidStage:
    if error.diag.table_name == "documents":
        return InvalidStage("store.document_taken", document_id=document.document_id, uri=document.uri)
    return InvalidStage("store.chunk_taken", uri=document.uri)
