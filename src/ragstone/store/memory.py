"""A store in memory: exact vector search and BM25, for small collections and tests.

Writers change one dictionary of whole documents under a lock; a search runs on an
immutable picture of it, drawn when the first search after a write asks for it. All of
it runs in worker threads, so that the lock never holds the event loop.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import anyio.to_thread
import numpy as np

from ragstone.errors import InvalidStage, ModelMismatch
from ragstone.filters import matches
from ragstone.metadata import checked_texts
from ragstone.place import Layouts
from ragstone.protocols import Fuser
from ragstone.store.bm25 import BM25_B, BM25_K1, MAX_TERMS
from ragstone.store.checks import (
    check_models,
    checked_chunks,
    checked_reach,
    checked_scope,
    normalised,
    query_vector,
)
from ragstone.store.hybrid import HybridRule, unread
from ragstone.terms import analyze
from ragstone.types import (
    MEMBER_MARK,
    Chunk,
    DeletionReport,
    Document,
    Hit,
    Scope,
    Score,
    Vectors,
    checked_top_k,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemoryStore:
    """Keeps everything in this process; implements `protocols.Store`.

    Safe to share among tasks and threads. Chunks of equal score come by uri, index
    and age of their base.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        # What a write would else look through all documents for.
        self._sources: dict[tuple[str, str], str] = {}
        self._owners: dict[str, str] = {}
        self._models: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._dimensions: dict[str, int] = {}
        self._ages: dict[str, int] = {}
        self._picture: _Picture | None = None

    async def replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        return await anyio.to_thread.run_sync(self._replace, document, list(chunks), vectors)

    async def delete(self, document_ids: Sequence[str]) -> DeletionReport:
        checked_texts(document_ids, "document_ids")
        return await anyio.to_thread.run_sync(self._delete, list(document_ids))

    async def search_vector(self, vectors: Vectors, *, scope: Scope, top_k: int) -> list[Hit]:
        top_k, scope = checked_top_k(top_k), checked_scope(scope)
        vector = query_vector(vectors)
        return await anyio.to_thread.run_sync(
            lambda: self._drawn().nearest(vectors.model, vector, scope, top_k)
        )

    async def search_text(self, text: str, *, scope: Scope, top_k: int) -> list[Hit]:
        top_k, scope = checked_top_k(top_k), checked_scope(scope)
        return await anyio.to_thread.run_sync(lambda: self._drawn().matching(text, scope, top_k))

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
        candidates, scope = checked_top_k(candidates), checked_scope(scope)
        rule = HybridRule(vectors, fuse, top_k, compared)
        vector = query_vector(vectors)

        def search() -> list[Hit]:
            picture = self._drawn()
            nearest = picture.nearest(vectors.model, vector, scope, candidates)
            matching = picture.matching(text, scope, candidates)
            hits = rule.fused(list(map(_unread, nearest)), list(map(_unread, matching)))
            if best := rule.to_compare(hits):
                hits = rule.in_order(best, [picture.tokens(vectors.model, hit) for hit in best])
            return [picture.hit(picture.rows[hit.chunk.chunk_id], *hit.scores) for hit in hits[:top_k]]

        return await anyio.to_thread.run_sync(search)

    async def fetch(self, chunk_ids: Sequence[str]) -> list[Hit]:
        checked_texts(chunk_ids, "chunk_ids")

        def read() -> list[Hit]:
            picture = self._drawn()
            return [picture.hit(picture.rows[item]) for item in chunk_ids if item in picture.rows]

        return await anyio.to_thread.run_sync(read)

    async def neighbours(self, chunk_id: str, n: int) -> list[Hit]:
        n = checked_reach(n)
        return await anyio.to_thread.run_sync(lambda: self._drawn().neighbours(chunk_id, n))

    async def document(self, document_id: str) -> Document | None:
        entries = await anyio.to_thread.run_sync(self._snapshot)
        entry = entries.get(document_id)
        return None if entry is None else entry.document

    async def revisions(self, base_id: str, *, uri: str | None = None) -> Mapping[str, str]:
        entries = await anyio.to_thread.run_sync(self._snapshot)
        documents = (entry.document for entry in entries.values() if entry.document.base_id == base_id)
        return {
            document.uri: document.revision
            for document in documents
            if uri is None or document.uri == uri or document.uri.startswith(uri + MEMBER_MARK)
        }

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        entries = await anyio.to_thread.run_sync(self._snapshot)
        return await anyio.to_thread.run_sync(partial(_known, entries.values(), model, frozenset(hashes)))

    async def token_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.uint8]]:
        entries = await anyio.to_thread.run_sync(self._snapshot)
        return await anyio.to_thread.run_sync(partial(_tokens, entries.values(), model, frozenset(hashes)))

    async def set_enabled(self, chunk_ids: Sequence[str], enabled: bool) -> int:
        checked_texts(chunk_ids, "chunk_ids")
        return await anyio.to_thread.run_sync(self._set_enabled, frozenset(chunk_ids), enabled)

    async def count(self, scope: Scope) -> int:
        scope = checked_scope(scope)
        return await anyio.to_thread.run_sync(lambda: int(self._drawn().visible(scope).sum()))

    async def aclose(self) -> None:
        """Nothing is open; what is stored goes with the object."""

    # --- in worker threads -----------------------------------------------------------

    def _replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        entry = _Entry.of(document, chunks, vectors)
        with self._lock:
            self._check_model(entry)
            earlier = self._entries.get(self._sources.get(entry.source, ""))
            if earlier is not None and earlier.document.revision == document.revision:
                return False
            self._check_ids(entry, earlier)
            if earlier is not None:
                self._remove(earlier)
                entry = entry.marked(earlier.disabled, enabled=False)
            self._add(entry)
            return True

    def _check_model(self, entry: _Entry) -> None:
        found = entry.values.shape[1]
        stored = self._dimensions.get(entry.model, found)
        if stored != found:
            raise ModelMismatch("store.dimension", model=entry.model, found=found, stored=stored)
        for other in self._models.get(entry.base_id, ()):
            if other != entry.model:
                raise ModelMismatch("store.model", base=entry.base_id, stored=other, model=entry.model)

    def _check_ids(self, entry: _Entry, earlier: _Entry | None) -> None:
        document = entry.document
        if self._entries.get(document.document_id, earlier) is not earlier:
            raise InvalidStage("store.document_taken", document_id=document.document_id, uri=document.uri)
        own = None if earlier is None else earlier.document.document_id
        if any(self._owners.get(chunk.chunk_id, own) != own for chunk in entry.chunks):
            raise InvalidStage("store.chunk_taken", uri=document.uri)

    def _add(self, entry: _Entry) -> None:
        document_id = entry.document.document_id
        self._entries[document_id] = entry
        self._sources[entry.source] = document_id
        self._ages.setdefault(entry.base_id, len(self._ages))
        self._owners.update(dict.fromkeys((chunk.chunk_id for chunk in entry.chunks), document_id))
        self._dimensions[entry.model] = entry.values.shape[1]
        if entry.chunks:
            self._models[entry.base_id][entry.model] += 1
        self._picture = None

    def _remove(self, entry: _Entry) -> None:
        del self._entries[entry.document.document_id]
        del self._sources[entry.source]
        for chunk in entry.chunks:
            del self._owners[chunk.chunk_id]
        if entry.chunks:
            # Leaves no key that counts 0: the keys are the models that the base holds.
            self._models[entry.base_id] -= Counter({entry.model: 1})
        self._picture = None

    def _delete(self, document_ids: Sequence[str]) -> DeletionReport:
        with self._lock:
            found = [item for item in dict.fromkeys(document_ids) if item in self._entries]
            gone = [self._entries[item] for item in found]
            for entry in gone:
                self._remove(entry)
        chunks = sum(len(entry.chunks) for entry in gone)
        return DeletionReport(
            document_ids=tuple(sorted(found)),
            rows={
                "documents": len(gone),
                # There is one generation here.
                "generation_documents": len(gone),
                "chunks": chunks,
                "vectors": chunks,
            },
        )

    def _set_enabled(self, chunk_ids: Set[str], enabled: bool) -> int:
        with self._lock:
            known = chunk_ids & self._owners.keys()
            for document_id in {self._owners[chunk_id] for chunk_id in known}:
                entry = self._entries[document_id]
                named = {chunk.embedding_hash for chunk in entry.chunks if chunk.chunk_id in known}
                self._entries[document_id] = entry.marked(named, enabled=enabled)
            self._picture = None
        return len(known)

    def _snapshot(self) -> dict[str, _Entry]:
        with self._lock:
            return dict(self._entries)

    def _drawn(self) -> _Picture:
        with self._lock:
            if self._picture is None:
                self._picture = _Picture(self._entries.values(), self._ages)
            return self._picture


@dataclass(frozen=True, slots=True)
class _Entry:
    """A stored document with its chunks in order, and one row of `values` and `terms` for each."""

    document: Document
    chunks: tuple[Chunk, ...]
    model: str
    values: NDArray[np.float32]
    terms: tuple[Counter[str], ...]
    tokens: tuple[NDArray[np.generic], ...] = ()

    @staticmethod
    def of(document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> _Entry:
        kept = checked_chunks(document, chunks, vectors)
        order = sorted(range(len(kept)), key=lambda place: kept[place].index)
        in_order = tuple(kept[place] for place in order)
        return _Entry(
            document=document,
            chunks=in_order,
            model=vectors.model,
            values=normalised(vectors.values)[order],
            tokens=tuple(vectors.token_vectors[place] for place in order) if vectors.token_vectors else (),
            terms=tuple(Counter(analyze(chunk.embedding_text)) for chunk in in_order),
        )

    @property
    def disabled(self) -> frozenset[str]:
        """Hashes of passages that no search finds."""
        return frozenset(chunk.embedding_hash for chunk in self.chunks if not chunk.enabled)

    def marked(self, hashes: Set[str], *, enabled: bool) -> _Entry:
        """The same with the passages of these hashes enabled or not."""
        if not hashes:
            return self
        chunks = (
            replace(chunk, enabled=enabled) if chunk.embedding_hash in hashes else chunk
            for chunk in self.chunks
        )
        return replace(self, chunks=tuple(chunks))

    @property
    def base_id(self) -> str:
        return self.document.base_id

    @property
    def source(self) -> tuple[str, str]:
        return self.document.base_id, self.document.uri


def _unread(hit: Hit) -> Hit:
    return unread(hit.chunk.chunk_id, hit.chunk.document_id, hit.chunk.index, *hit.scores)


def _known(entries: Iterable[_Entry], model: str, hashes: frozenset[str]) -> dict[str, NDArray[np.float32]]:
    return {
        chunk.embedding_hash: entry.values[place].copy()
        for entry in entries
        if entry.model == model
        for place, chunk in enumerate(entry.chunks)
        if chunk.embedding_hash in hashes
    }


def _tokens(entries: Iterable[_Entry], model: str, hashes: frozenset[str]) -> dict[str, NDArray[np.uint8]]:
    return {
        chunk.embedding_hash: tokens.astype(np.uint8)
        for entry in entries
        if entry.model == model
        for chunk, tokens in zip(entry.chunks, entry.tokens, strict=False)
        if chunk.embedding_hash in hashes and len(tokens)
    }


class _Picture:
    """All chunks at one moment, a row each, those of a document together.

    `ages` says how many bases are older than one.
    """

    def __init__(self, entries: Iterable[_Entry], ages: Mapping[str, int]) -> None:
        self._ages = ages
        self._entries = sorted(entries, key=lambda entry: (entry.document.uri, entry.document.document_id))
        self._places = [(entry, place) for entry in self._entries for place in range(len(entry.chunks))]
        self._layouts: dict[str, Layouts] = {}
        self.rows = {entry.chunks[place].chunk_id: row for row, (entry, place) in enumerate(self._places)}

    def hit(self, row: int, *scores: Score) -> Hit:
        entry, place = self._places[row]
        chunk = entry.chunks[place]
        return Hit(
            chunk=replace(chunk, layout=self._layouts_of(entry).of(chunk.start, chunk.end)),
            uri=entry.document.uri,
            title=entry.document.title,
            base_id=entry.base_id,
            scores=scores,
        )

    def _layouts_of(self, entry: _Entry) -> Layouts:
        document = entry.document
        if document.document_id not in self._layouts:
            self._layouts[document.document_id] = Layouts(document.text, document.layout)
        return self._layouts[document.document_id]

    def tokens(self, model: str, hit: Hit) -> NDArray[np.generic] | None:
        entry, place = self._places[self.rows[hit.chunk.chunk_id]]
        return entry.tokens[place] if entry.tokens and entry.model == model else None

    def neighbours(self, chunk_id: str, n: int) -> list[Hit]:
        row = self.rows.get(chunk_id)
        if row is None:
            return []
        entry, place = self._places[row]
        first, last = max(0, place - n), min(len(entry.chunks), place + n + 1)
        return [self.hit(row - place + near) for near in range(first, last)]

    def visible(self, scope: Scope) -> NDArray[np.bool_]:
        """A row each: whether the scope may see it."""
        bases = None if scope.bases is None else frozenset(scope.bases)
        return np.fromiter(
            (
                (bases is None or entry.base_id in bases)
                and entry.chunks[place].enabled
                and (scope.filter is None or matches(scope.filter, entry.chunks[place].metadata))
                for entry, place in self._places
            ),
            dtype=np.bool_,
            count=len(self._places),
        )

    def nearest(self, model: str, vector: NDArray[np.float32], scope: Scope, top_k: int) -> list[Hit]:
        self._check_model(model, vector.shape[0], scope)
        if model not in self._matrices or not vector.any():
            return []
        rows, matrix = self._matrices[model]
        keep = self.visible(scope)[rows]
        rows, matrix = rows[keep], matrix[keep]
        cosines = np.clip(matrix @ vector, -1.0, 1.0)
        # A zero vector has no direction: it scores 0 and stands behind every real one.
        blank = ~matrix.any(axis=1)
        order = np.lexsort((self._standing[rows], -cosines, blank))[:top_k]
        return self._ranked(rows[order], cosines[order], stage="vector", scale="cosine")

    def matching(self, text: str, scope: Scope, top_k: int) -> list[Hit]:
        scores = np.where(self.visible(scope), self._bm25(analyze(text), self._of_bases(scope.bases)), 0.0)
        rows = np.flatnonzero(scores > 0.0)
        order = rows[np.lexsort((self._standing[rows], -scores[rows]))[:top_k]]
        return self._ranked(order, scores[order], stage="text", scale="text")

    def _ranked(
        self, rows: NDArray[np.intp], values: NDArray[np.floating], *, stage: str, scale: str
    ) -> list[Hit]:
        return [
            self.hit(int(row), Score(stage=stage, scale=scale, value=float(value), rank=rank))
            for rank, (row, value) in enumerate(zip(rows, values, strict=True), start=1)
        ]

    def _check_model(self, model: str, dimension: int, scope: Scope) -> None:
        if model in self._matrices and self._matrices[model][1].shape[1] != dimension:
            stored = self._matrices[model][1].shape[1]
            raise ModelMismatch("store.dimension", model=model, found=dimension, stored=stored)
        held = {entry.base_id: entry.model for entry in self._entries if entry.chunks}
        check_models(held, model, scope)

    def _of_bases(self, bases: Sequence[str] | None) -> NDArray[np.bool_]:
        """A row each: whether it is of one of these bases, disabled or not."""
        known = None if bases is None else frozenset(bases)
        return np.fromiter(
            (known is None or entry.base_id in known for entry, _ in self._places),
            dtype=np.bool_,
            count=len(self._places),
        )

    def _bm25(self, terms: Sequence[str], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """BM25 of the rows that are `counted`, as a share of the most that a row could reach.

        Other rows have no part in it: a score would tell what stands in them.
        """
        total = int(counted.sum())
        scores = np.zeros(len(self._places))
        mean = max(1.0, float(self._lengths[counted].mean())) if total else 1.0
        most = 0.0
        for term in list(dict.fromkeys(terms))[:MAX_TERMS]:
            rows, counts = self._postings.get(term, (np.empty(0, np.intp), np.empty(0)))
            rows, counts = rows[counted[rows]], counts[counted[rows]]
            idf = float(np.log1p((total - len(rows) + 0.5) / (len(rows) + 0.5)))
            length = 1.0 - BM25_B + BM25_B * self._lengths[rows] / mean
            scores[rows] += idf * counts / (counts + BM25_K1 * length)
            most += idf
        return scores / most if most else scores

    @cached_property
    def _standing(self) -> NDArray[np.intp]:
        """A row each: how many stand before it where scores are equal."""

        def standing(row: int) -> tuple[str, int, int, str]:
            entry, place = self._places[row]
            document = entry.document
            return document.uri, entry.chunks[place].index, self._ages[entry.base_id], document.document_id

        order = sorted(range(len(self._places)), key=standing)
        return np.argsort(np.asarray(order, np.intp))

    @cached_property
    def _matrices(self) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """model -> its rows, and their unit vectors."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        parts: defaultdict[str, list[NDArray[np.float32]]] = defaultdict(list)
        first = 0
        for entry in self._entries:
            rows[entry.model] += range(first, first + len(entry.chunks))
            parts[entry.model].append(entry.values)
            first += len(entry.chunks)
        return {model: (np.asarray(rows[model], np.intp), np.concatenate(parts[model])) for model in rows}

    @cached_property
    def _postings(self) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """term -> the rows that hold it, and how often."""
        postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, (entry, place) in enumerate(self._places):
            for term, count in entry.terms[place].items():
                postings[term].append((row, count))
        return {
            term: (np.array([row for row, _ in found], np.intp), np.array([n for _, n in found], np.float64))
            for term, found in postings.items()
        }

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """A row each: its number of terms."""
        return np.array([entry.terms[place].total() for entry, place in self._places], np.float64)
