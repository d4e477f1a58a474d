"""One search in PostgreSQL: vector, full text or both, seen at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread
from psycopg.rows import DictRow, dict_row

from ragstone.errors import ModelMismatch
from ragstone.metadata import MetadataValue
from ragstone.place import Layout, Layouts, rows_are_counted
from ragstone.postgres.pool import Connection
from ragstone.store.batch import batch
from ragstone.store.bm25 import TextStatistics
from ragstone.store.encoding import read_layout, read_metadata, read_tokens, vector_text
from ragstone.store.hybrid import HybridRule, unread
from ragstone.store.statements import (
    COLUMNS,
    QUERIES,
    Model,
    Statement,
    View,
    among,
    count_inside,
    matching,
    nearest,
    other_model,
    walk_settings,
)
from ragstone.trace import degrade, note
from ragstone.types import Chunk, Hit, Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ONE_MOMENT, ONE_PLAN = Statement(QUERIES["one_moment"]), Statement(QUERIES["one_plan"], once=True)
FETCH = QUERIES["fetch"].format(columns=COLUMNS)

CANDIDATES = 2_000
"""Rows that hold only common terms are looked at up to this many."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the index outside proposes: its copy, chunk ids, and for how many seconds it may lag."""

    index_id: int
    chunk_ids: Sequence[str]
    fresh_s: int


@dataclass(slots=True)
class Search:
    """What is asked; `run` answers it in one transaction that sees one moment."""

    view: View
    top_k: int
    exact_rows: int
    vector: NDArray[np.float32] | None = None
    identity: str = ""
    model: Model | None = None
    terms: Sequence[str] = ()
    known: TextStatistics | None = None
    large: bool = False
    """Whether the scope is known, before or after `run`, to be too large for a scan."""
    candidates: Candidates | None = None
    """With these only they and what the outbox holds are ranked."""
    hybrid: HybridRule | None = None
    near: int = 0
    """How many vectors were ranked, after `run`."""

    @property
    def has_nearest(self) -> bool:
        """Whether there are vectors to look for near the question's."""
        if self.vector is None or self.model is None or self.view.scope.bases == ():
            return False
        return bool(self.vector.any())

    async def count(self, connection: Connection) -> int:
        """How many vectors the scope holds, counted to one more than are scanned or asked for."""
        assert self.model is not None
        limit = max(self.exact_rows, self.top_k) + 1
        ((row,),) = await batch(connection, [count_inside(self.model, self.view, limit)])
        return cast(int, row["count"])

    async def run(self, connection: Connection) -> list[Hit]:
        """Rank, fuse and compare by ids; then read the passages of the best."""
        nearest, matching = await self._rankings(connection)
        self.near = len(nearest)
        if self.hybrid is None:
            return await _whole(connection, nearest or matching)
        hits = self.hybrid.fused(nearest, matching)
        if best := self.hybrid.to_compare(hits):
            hits = await self._compared(connection, self.hybrid, best)
        return await _whole(connection, hits[: self.hybrid.top_k])

    async def _compared(self, connection: Connection, rule: HybridRule, best: Sequence[Hit]) -> list[Hit]:
        if self.model is None:
            return list(best)
        ids = [hit.chunk.chunk_id for hit in best]
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(
                QUERIES["tokens_of_chunks"], {"model_id": self.model.model_id, "chunk_ids": ids}
            )
            tokens = {row[0]: read_tokens(row[1], self.model.dimension) for row in await cursor.fetchall()}
        note(compared=len(tokens))
        return await to_thread.run_sync(rule.in_order, best, [tokens.get(chunk_id) for chunk_id in ids])

    async def _rankings(self, connection: Connection) -> tuple[list[Hit], list[Hit]]:
        """(nearest, matching), in one round trip to the server."""
        statements = self._statements()
        if not statements:
            return [], []
        found = await batch(connection, [ONE_MOMENT, *statements.values()])
        rows = dict(zip(statements, found[1:], strict=True))
        near = rows.get("nearest", [])
        self.large = bool(near) and near[0]["large"]
        # A base that was named must fit; among all bases those of other models are passed over
        # as long as there are some that fit.
        for other in rows.get("other", []):
            if self.candidates is not None and not near:
                break  # of an index that found nothing; PostgreSQL is asked next
            if self.view.scope.bases is not None or not near:
                name, stored = other["name"], other["identity"]
                raise ModelMismatch("store.model", base=name, stored=stored, model=self.identity)
            degrade("other_model")
        return (
            _ranked(near, "distance", stage="vector", scale="cosine"),
            _ranked(rows.get("text", []), "score", stage="text", scale="text"),
        )

    def _statements(self) -> dict[str, Statement]:
        statements: dict[str, Statement] = {}
        if self.view.scope.bases == ():
            return statements
        if self.terms and self.known is not None:
            candidates = max(CANDIDATES, 20 * self.top_k)
            text = matching(self.terms, self.known, self.view, top_k=self.top_k, candidates=candidates)
            statements |= {"plan": ONE_PLAN, "text": text} if text.once else {"text": text}
        if self.vector is not None:
            statements["other"] = other_model(self.identity, self.view)
        if self.has_nearest:
            statements |= self._nearest()
        return statements

    def _nearest(self) -> dict[str, Statement]:
        assert self.vector is not None
        assert self.model is not None
        question = vector_text(self.vector)
        if (held := self.candidates) is not None:
            lag = (held.index_id, held.fresh_s)
            found = among(self.model, self.view, question, held.chunk_ids, copy=lag, top_k=self.top_k)
            return {"nearest": found}
        exact_rows = -1 if self.large else self.exact_rows
        # The settings come last: they are for the vector search alone.
        found = nearest(self.model, self.view, question, top_k=self.top_k, exact_rows=exact_rows)
        return {"settings": walk_settings(self.top_k, once=found.once), "nearest": found}


def _ranked(rows: Sequence[DictRow], column: str, *, stage: str, scale: str) -> list[Hit]:
    return [
        unread(
            row["chunk_id"],
            row["document_id"],
            row["index"],
            Score(stage=stage, scale=scale, value=_value(row[column], scale), rank=rank),
        )
        for rank, row in enumerate(rows, start=1)
    ]


async def _whole(connection: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """The hits with what their passages say."""
    if not hits:
        return []
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(FETCH, {"chunk_ids": [hit.chunk.chunk_id for hit in hits]})
        rows = await cursor.fetchall()
    read = {item.chunk.chunk_id: item for item in await placed(connection, rows)}
    return [read[found.chunk.chunk_id].with_scores(found.scores) for found in hits]


async def placed(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[Hit]:
    """Rows with `hit_columns` as hits.

    Rows of spreadsheets that were stored before these were recorded are counted in their texts.
    """
    hits = [hit(row) for row in rows]
    old = {row["document_id"] for row in rows if row["rows"] is None and rows_are_counted(row["media_type"])}
    if not old:
        return hits
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["documents_to_count"], {"document_ids": list(old)})
        documents = await cursor.fetchall()
    return await to_thread.run_sync(_counted, hits, documents)


def _counted(hits: Sequence[Hit], documents: Sequence[DictRow]) -> list[Hit]:
    layouts = {
        row["document_id"]: Layouts(row["text"], read_layout(row["media_type"], [], row["headings"]))
        for row in documents
    }
    return [_with_rows(found, layouts.get(found.chunk.document_id)) for found in hits]


def _with_rows(found: Hit, layouts: Layouts | None) -> Hit:
    chunk = found.chunk
    if layouts is None:
        return found
    layout = replace(chunk.layout, rows=layouts.rows(chunk.start, chunk.end))
    return replace(found, chunk=replace(chunk, layout=layout))


def _value(stored: float, scale: str) -> float:
    if scale != "cosine":
        return float(stored)
    # The distance to a zero vector is NaN.
    return max(-1.0, min(1.0, 1.0 - stored)) if stored == stored else 0.0


def hit(row: Mapping[str, Any]) -> Hit:
    """A row with `hit_columns` as a hit."""
    chunk = Chunk(
        chunk_id=row["chunk_id"],
        document_id=row["document_id"],
        index=row["index"],
        text=row["text"],
        start=row["start_at"],
        end=row["end_at"],
        context=row["context"],
        page=row["page"],
        headings=_headings(row["headings"]),
        metadata=dict(_metadata(row["metadata"])),
        parent=None if row["parent_start"] is None else (row["parent_start"], row["parent_end"]),
        enabled=row["enabled"],
        layout=_layout(row["media_type"], row["pages"], row["stands_under"], row["rows"] or "[]"),
    )
    return Hit(chunk=chunk, uri=row["uri"], title=row["title"], base_id=row["base_id"])


# Chunks of one document mostly have the same.


@lru_cache(maxsize=2_000)
def _headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=2_000)
def _layout(media_type: str, pages: str, headings: str, rows: str) -> Layout:
    return read_layout(media_type, json.loads(pages), json.loads(headings), json.loads(rows))


@lru_cache(maxsize=2_000)
def _metadata(text: str) -> Mapping[str, MetadataValue]:
    return read_metadata(json.loads(text))
