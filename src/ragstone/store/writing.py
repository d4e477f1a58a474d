"""Documents into generations: one transaction each.

Locks are always taken in this order: what the guard locks, source, base, document.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from psycopg.rows import DictRow, dict_row

from ragstone.errors import BaseNotFound, ModelMismatch
from ragstone.place import Layouts
from ragstone.postgres.fields import Field
from ragstone.postgres.pool import Connection
from ragstone.store import enabling, encoding
from ragstone.store.batch import batch
from ragstone.store.checks import normalised
from ragstone.store.encoding import Row
from ragstone.store.statements import QUERIES, Model, Statement
from ragstone.terms import analyze
from ragstone.types import Chunk, Document, Vectors, digest

FEW_CHUNKS = 8
"""So many rows go with the other statements of a document; more are copied, which takes two more round
trips and less for each row."""


Guard: TypeAlias = Callable[[Connection], Awaitable[None]]
"""Comes first in a transaction that writes; raises when it must not, and locks what it has judged."""


async def unguarded(connection: Connection) -> None:
    """Whoever has the store may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a document is in the tables, but for its generation."""

    document: Document
    values: Mapping[str, object]
    chunks: list[Row]
    vectors: list[Row]
    term_count: int
    disabled: frozenset[str]
    """Hashes of passages that no search is to find."""

    @staticmethod
    def of(document: Document, chunks: Sequence[Chunk], vectors: Vectors, model: Model) -> Rows:
        """The chunks must have been checked. CPU work: for a thread."""
        base_id, layouts = document.base_id, Layouts(document.text, document.layout)
        units = normalised(vectors.values)
        tokens = vectors.token_vectors or [None] * len(chunks)
        terms = [analyze(chunk.embedding_text) for chunk in chunks]
        return Rows(
            document=document,
            values=encoding.document_values(document),
            chunks=[
                encoding.chunk_row(chunk, base_id, held, layouts.rows(chunk.start, chunk.end))
                for chunk, held in zip(chunks, terms, strict=True)
            ],
            vectors=[
                encoding.vector_row(chunk, base_id, model.model_id, unit, signs)
                for chunk, unit, signs in zip(chunks, units, tokens, strict=True)
            ],
            term_count=sum(map(len, terms)),
            disabled=frozenset(chunk.embedding_hash for chunk in chunks if not chunk.enabled),
        )


async def replace(rows: Rows, model: Model, guard: Guard, connection: Connection) -> bool:
    """Put the document in place of its earlier version; False when that is of the same revision.

    It enters the generation that answers and leaves every other.
    """
    document = rows.document
    await guard(connection)
    # Writers of the same source queue here, also while it has no row to lock.
    key = digest("source", document.base_id, document.uri, size=8)
    source = _once("lock_source", {"key": struct.unpack(">q", bytes.fromhex(key))[0]})
    base = {"base_id": document.base_id}
    stored_revision = _once("stored_revision", rows.values)
    _, _, found, stored = await batch(
        connection,
        [source, _once("lock_base_shared", base), _once("active_generation", base), stored_revision],
    )
    if found and _fits(found[0], model, None):
        generation_id = cast(int, found[0]["generation_id"])
    else:
        # A base that is new or changes its model is locked alone, never after it was shared.
        await connection.rollback()
        await guard(connection)
        await batch(connection, [source])
        generation_id = await bound(connection, document.base_id, model)
        (stored,) = await batch(connection, [stored_revision])
    if stored and stored[0]["revision"] == document.revision:
        return False
    # Asked when no other can change it any more.
    (disabled,) = await batch(connection, [enabling.disabled_of(document)]) if stored else ([],)
    taken_out = (
        [_once("take_out", {"document_ids": [row["document_id"] for row in stored]})] if stored else []
    )
    statements = [*taken_out, _once("put_document", rows.values)]
    await put_in(connection, generation_id, rows, disabled=disabled, after=statements)
    return True


async def put_in(
    connection: Connection,
    generation_id: int,
    rows: Rows,
    *,
    disabled: Sequence[DictRow],
    after: Sequence[Statement] = (),
) -> None:
    """Chunks and vectors of a stored document into a generation that does not have it.

    What comes `after` other statements is sent together with them. `disabled` are the rows of
    `enabling.disabled_of`.
    """
    values = {
        "generation_id": generation_id,
        "document_id": rows.document.document_id,
        "chunk_count": len(rows.chunks),
        "term_count": rows.term_count,
    }
    statements = [*after, _once("put_generation_document", values)]
    hashes = rows.disabled.union(row["embedding_hash"] for row in disabled)
    disabling = enabling.disabling(rows.document, hashes)
    if len(rows.chunks) > FEW_CHUNKS:
        await batch(connection, statements)
        await _copy(connection, "copy_chunks", generation_id, rows.chunks)
        await _copy(connection, "copy_vectors", generation_id, rows.vectors)
        if disabling:
            await batch(connection, disabling)
        return
    for name, held in (("insert_chunk", rows.chunks), ("insert_vector", rows.vectors)):
        statements += [_inserted(name, generation_id, row) for row in held]
    await batch(connection, [*statements, *disabling])


def _once(name: str, values: Mapping[str, object]) -> Statement:
    return Statement(QUERIES[name], values, once=True)


def _inserted(name: str, generation_id: int, row: Row) -> Statement:
    fields = (encoding.integer(generation_id), *row)
    return Statement(QUERIES[name], [None if field is None else Field(field) for field in fields], once=True)


async def bound(connection: Connection, base_id: str, model: Model, *, settings: str | None = None) -> int:
    """The generation that answers in the base; it is of this model until the transaction ends.

    A base without one gets one, and one without chunks takes the model. Only then the base
    is locked against other writers; otherwise they share the lock. `settings` are those of
    what is about to be written: a generation with others than its own has none from then on.

    Raises:
        BaseNotFound: another base bears this name, or the base has just been removed.
        ModelMismatch: the generation holds vectors of another model.
    """
    values = {"base_id": base_id, "model_id": model.model_id}
    await connection.execute(QUERIES["insert_base"], values)
    # Never first shared and then alone: two writers would wait for each other.
    shared = _fits(await active(connection, base_id), model, settings)
    lock = QUERIES["lock_base_shared" if shared else "lock_base"]
    if await (await connection.execute(lock, values)).fetchone() is None:
        raise BaseNotFound("store.base_name", base=base_id)
    found = await active(connection, base_id)
    if found is None:
        return await opened(connection, base_id, model, state="active", settings=settings or "")
    if found["model_id"] != model.model_id and (found["filled"] or shared):
        raise ModelMismatch("store.model", base=found["name"], stored=found["identity"], model=model.identity)
    if not _fits(found, model, settings) and not shared:
        change = {**values, "generation_id": found["generation_id"], "settings": settings or ""}
        if found["filled"]:
            change["settings"] = ""
        await connection.execute(QUERIES["change_generation"], change)
    return cast(int, found["generation_id"])


def _fits(found: Mapping[str, Any] | None, model: Model, settings: str | None) -> bool:
    if found is None or found["model_id"] != model.model_id:
        return False
    return settings is None or found["settings"] == settings or (found["filled"] and not found["settings"])


async def active(connection: Connection, base_id: str) -> DictRow | None:
    """The generation that answers in the base, and whether it holds chunks."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["active_generation"], {"base_id": base_id})
        return await cursor.fetchone()


async def opened(connection: Connection, base_id: str, model: Model, *, state: str, settings: str) -> int:
    """A new generation without documents."""
    values = {"base_id": base_id, "model_id": model.model_id, "state": state, "settings": settings}
    row = await (await connection.execute(QUERIES["insert_generation"], values)).fetchone()
    assert row is not None
    return cast(int, row[0])


async def _copy(connection: Connection, name: str, generation_id: int, rows: Sequence[Row]) -> None:
    generation = encoding.integer(generation_id)
    async with connection.cursor() as cursor, cursor.copy(QUERIES[name]) as copy:
        for row in rows:
            await copy.write_row((generation, *row))
