"""A store in PostgreSQL with pgvector: documents, chunks, vectors and full text in one engine.

Replacing a document is one transaction, so a reader sees the old version or the new
one. Vector search scans small scopes exactly and walks an HNSW index in large ones, by
our own count of the rows in scope.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from psycopg import errors
from psycopg.rows import dict_row

from ragstone.errors import BaseNotFound, InvalidStage, ModelMismatch
from ragstone.postgres.migrate import migrate, prepare_server
from ragstone.postgres.pool import Connection, Database
from ragstone.protocols import VectorIndex
from ragstone.store import encoding
from ragstone.store.checks import (
    checked_chunks,
    checked_reach,
    checked_scope,
    normalised,
    query_vector,
    storable,
    storable_ids,
)
from ragstone.store.encoding import Row
from ragstone.store.hnsw import VectorIndexes
from ragstone.store.indexed import IndexedSearch
from ragstone.store.outbox import OnFilled
from ragstone.store.searching import Search, hit
from ragstone.store.statements import COLUMNS, QUERIES, Model, Sql, count_chunks, other_model
from ragstone.terms import analyze
from ragstone.types import Chunk, DeletionReport, Document, Hit, Scope, Vectors, checked_top_k, digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT_ROWS = 10_000
"""A scan of as many rows takes about 66 ms and misses nothing; beyond, HNSW is quicker (100,000
vectors of 384 dimensions, 2 cores)."""

MAX_DIMENSION = 16_000
"""What halfvec holds."""

_FIND_MODEL = QUERIES["find_model"]
_FETCH = QUERIES["fetch"].format(columns=COLUMNS)
_NEIGHBOURS = QUERIES["neighbours"].format(columns=COLUMNS)


class PostgresStore:
    """Implements `protocols.Store`. Safe to share among tasks of one event loop.

    Made by `PostgresStore.open`, which brings the tables up to date. The database is
    the caller's to close. Chunks of equal score come in the order of (document_id,
    index). A vector of length 0 scores 0 and stands last; through the HNSW index it is
    found only when the index has too few other rows.

    `exact_rows` is the largest scope that is scanned without the index. A model with
    more vectors than that gets its index within the next 1,000 vectors written; the
    `replace` that brings it about waits for it, readers and other writers do not.

    `indexed` lets searches of large scopes go through an index outside the database.
    """

    def __init__(
        self, database: Database, *, exact_rows: int = EXACT_ROWS, indexed: IndexedSearch | None = None
    ) -> None:
        self._database = database
        self._indexed = indexed
        self._models: dict[str, Model] = {}
        self._exact_rows = exact_rows
        self._indexes = VectorIndexes(database, exact_rows=exact_rows)

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

    # --- writing ---------------------------------------------------------------------

    async def replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        kept = await anyio.to_thread.run_sync(checked_chunks, document, list(chunks), vectors)
        model = await self._registered(vectors, document.base_id)
        rows = await anyio.to_thread.run_sync(_rows, document, kept, vectors, model)
        try:
            # Twice is the same as once: the second time the revision is already there.
            written = await self._database.run_retrying(partial(_replace, document, model, *rows))
        except errors.UniqueViolation as error:
            raise _taken(error, document) from error
        except errors.ForeignKeyViolation as error:
            raise BaseNotFound("store.base_gone", base=document.base_id) from error
        if written:
            await self._indexes.grown(model, by=len(kept))
            await self.tell_index()
        return written

    async def _registered(self, vectors: Vectors, base_id: str) -> Model:
        """The model of these vectors, entered in a transaction of its own when it is new."""

        model = await self._model(vectors)
        if model is not None:
            return model
        if vectors.dimension > MAX_DIMENSION or not storable(vectors.model):
            raise ModelMismatch(
                "store.dimension_limit",
                model=repr(vectors.model)[:80],
                found=vectors.dimension,
                limit=MAX_DIMENSION,
            )
        register = partial(_register, vectors.model, vectors.dimension, base_id)
        model = self._known(vectors, await self._database.run_retrying(register))
        assert model is not None  # just inserted
        return model

    async def _model(self, vectors: Vectors) -> Model | None:
        """The model of these vectors if the database knows it."""
        model = self._models.get(vectors.model)
        if model is None and storable(vectors.model):
            model = await self._database.run_retrying(partial(_find_model, identity=vectors.model))
        return self._known(vectors, model)

    def _known(self, vectors: Vectors, model: Model | None) -> Model | None:
        if model is None:
            return None
        self._models[model.identity] = model
        if model.dimension != vectors.dimension:
            raise ModelMismatch(
                "store.dimension", model=model.identity, found=vectors.dimension, stored=model.dimension
            )
        return model

    async def delete(self, document_ids: Sequence[str]) -> DeletionReport:
        ids = storable_ids(dict.fromkeys(document_ids))
        if not ids:
            return DeletionReport(document_ids=(), rows={"documents": 0, "chunks": 0, "vectors": 0})
        async with self._database.connection() as connection:
            report = await _delete(connection, ids)
        await self.tell_index()
        return report

    async def tell_index(self) -> None:
        """Tell the index outside what changed, where there is one; after writes of another way."""
        if self._indexed is not None:
            await self._indexed.written()

    # --- searching -------------------------------------------------------------------

    async def search_vector(self, vectors: Vectors, *, scope: Scope, top_k: int) -> list[Hit]:
        nearest, _ = await self._search(vectors, None, scope, top_k)
        return nearest

    async def search_text(self, text: str, *, scope: Scope, top_k: int) -> list[Hit]:
        _, matching = await self._search(None, text, scope, top_k)
        return matching

    async def search_hybrid(
        self, text: str, vectors: Vectors, *, scope: Scope, top_k: int
    ) -> tuple[list[Hit], list[Hit]]:
        return await self._search(vectors, text, scope, top_k)

    async def _search(
        self, vectors: Vectors | None, text: str | None, scope: Scope, top_k: int
    ) -> tuple[list[Hit], list[Hit]]:
        search = Search(checked_scope(scope), checked_top_k(top_k), exact_rows=self._exact_rows)
        if vectors is not None:
            search.vector = query_vector(vectors)
            search.identity = vectors.model
            search.model = await self._model(vectors)
        search.text = text
        if self._indexed is not None and vectors is not None:
            return await self._indexed.run(search)
        return await self._database.run_retrying(search.run)

    # --- reading ---------------------------------------------------------------------

    async def fetch(self, chunk_ids: Sequence[str]) -> list[Hit]:
        rows = await self._rows(_FETCH, {"chunk_ids": storable_ids(dict.fromkeys(chunk_ids))})
        found = {cast(str, row["chunk_id"]): hit(row) for row in rows}
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]

    async def neighbours(self, chunk_id: str, n: int) -> list[Hit]:
        n = checked_reach(n)
        if not storable(chunk_id):
            return []
        return [hit(row) for row in await self._rows(_NEIGHBOURS, {"chunk_id": chunk_id, "n": n})]

    async def document(self, document_id: str) -> Document | None:
        if not storable(document_id):
            return None
        rows = await self._rows(QUERIES["document"], {"document_id": document_id})
        return encoding.read_document(rows[0]) if rows else None

    async def revisions(self, base_id: str) -> Mapping[str, str]:
        if not storable(base_id):
            return {}
        rows = await self._rows(QUERIES["revisions"], {"base_id": base_id})
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

    async def count(self, scope: Scope) -> int:
        statement = count_chunks(checked_scope(scope))
        rows = await self._rows(statement.sql, statement.values)
        return cast(int, rows[0]["count"])

    async def _rows(
        self, sql: Sql, values: Mapping[str, object], *, binary: bool = False
    ) -> list[dict[str, Any]]:
        async def read(connection: Connection) -> list[dict[str, Any]]:
            async with connection.cursor(row_factory=dict_row, binary=binary) as cursor:
                return await (await cursor.execute(sql, values)).fetchall()

        return await self._database.run_retrying(read)

    async def aclose(self) -> None:
        """Nothing of its own is open; the database stays the caller's."""


def _rows(
    document: Document, chunks: Sequence[Chunk], vectors: Vectors, model: Model
) -> tuple[dict[str, object], list[Row], list[Row]]:
    """What a replacement writes: the document's values, rows of chunks and of vectors."""
    base_id = document.base_id
    units = normalised(vectors.values)
    terms = [analyze(chunk.embedding_text) for chunk in chunks]
    return (
        encoding.document_values(document, chunk_count=len(chunks), term_count=sum(map(len, terms))),
        [encoding.chunk_row(chunk, base_id, held) for chunk, held in zip(chunks, terms, strict=True)],
        [
            encoding.vector_row(chunk, base_id, model.model_id, unit)
            for chunk, unit in zip(chunks, units, strict=True)
        ],
    )


async def _find_model(connection: Connection, identity: str) -> Model | None:
    row = await (await connection.execute(_FIND_MODEL, {"identity": identity})).fetchone()
    return None if row is None else Model(identity=identity, model_id=row[0], dimension=row[1])


async def _register(identity: str, dimension: int, base_id: str, connection: Connection) -> Model | None:
    # A base that cannot take the model must not leave the model behind.
    statement = other_model(identity, Scope(bases=(base_id,)))
    foreign = await (await connection.execute(statement.sql, statement.values)).fetchone()
    if foreign is not None:
        raise ModelMismatch("store.model", base=foreign[0], stored=foreign[1], model=identity)
    await connection.execute(QUERIES["insert_model"], {"identity": identity, "dimension": dimension})
    return await _find_model(connection, identity)


async def _replace(
    document: Document,
    model: Model,
    values: Mapping[str, object],
    chunks: Sequence[Row],
    vectors: Sequence[Row],
    connection: Connection,
) -> bool:
    """One transaction. Locks are always taken in this order: source, base, document."""
    # Writers of the same source queue here, also while it has no row to lock.
    key = digest("source", document.base_id, document.uri, size=8)
    await connection.execute(QUERIES["lock_source"], {"key": struct.unpack(">q", bytes.fromhex(key))[0]})
    await _bind_base(connection, document.base_id, model)
    stored = await (await connection.execute(QUERIES["stored_revision"], values)).fetchone()
    if stored is not None:
        earlier_id, revision = stored
        if revision == document.revision:
            return False
        await connection.execute(QUERIES["delete_chunks"], {"document_ids": [earlier_id]})
    await connection.execute(QUERIES["put_document"], values)
    await _copy(connection, "copy_chunks", chunks)
    await _copy(connection, "copy_vectors", vectors)
    return True


async def _bind_base(connection: Connection, base_id: str, model: Model) -> None:
    """See that the base is there and of this model, and stays so until the transaction ends.

    A base without vectors takes the model of the next document. Only then the base is
    locked against other writers; otherwise they share the lock.
    """
    values = {"base_id": base_id, "model_id": model.model_id}
    await connection.execute(QUERIES["insert_base"], values)
    bound = await (await connection.execute(QUERIES["base_model"], values)).fetchone()
    if bound is None:
        raise BaseNotFound("store.base_name", base=base_id)
    # Never first shared and then alone: two writers would wait for each other.
    lock = "base_model_share" if bound[0] == model.model_id else "base_model_update"
    bound = await (await connection.execute(QUERIES[lock], values)).fetchone()
    if bound is None:
        raise BaseNotFound("store.base_gone", base=base_id)
    if bound[0] == model.model_id:
        return
    foreign = await (await connection.execute(QUERIES["foreign_model"], values)).fetchone()
    if foreign is not None or lock == "base_model_share":
        name, stored = foreign or (base_id, "?")
        raise ModelMismatch("store.model", base=name, stored=stored, model=model.identity)
    await connection.execute(QUERIES["bind_base"], values)


async def _copy(connection: Connection, name: str, rows: Sequence[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(QUERIES[name]) as copy:
        for row in rows:
            await copy.write_row(row)


async def _delete(connection: Connection, ids: Sequence[str]) -> DeletionReport:
    values = {"document_ids": list(ids)}
    # In the order of ids, so that two deletions never wait for each other.
    found = await (await connection.execute(QUERIES["lock_documents"], values)).fetchall()
    document_ids = tuple(cast(str, row[0]) for row in found)
    values = {"document_ids": list(document_ids)}
    rows = {
        table: (await connection.execute(QUERIES[f"delete_{table}"], values)).rowcount
        for table in ("vectors", "chunks", "documents")
    }
    return DeletionReport(document_ids=document_ids, rows=dict(reversed(rows.items())))


def _taken(error: errors.UniqueViolation, document: Document) -> InvalidStage:
    if error.diag.table_name == "documents":
        return InvalidStage("store.document_taken", document_id=document.document_id, uri=document.uri)
    return InvalidStage("store.chunk_taken", uri=document.uri)
